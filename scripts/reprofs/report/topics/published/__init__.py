"""Comparison with published numbers: whether a study gives the published order, ratios and claims, and what differs.

A module a subject: `orders` (one size), `growth` (several), `claims`, and `twins`, values side by side.
"""
