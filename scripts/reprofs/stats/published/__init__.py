"""A study beside published numbers: orders of the configurations, ratios of times, laws of growth, and claims.

Published numbers are of another machine, so that orders and ratios are compared; where a study has several sizes, hours
as scenarios of growth. `comparison.Comparison` has all of it, each part computed once, when it is first asked for.
"""
