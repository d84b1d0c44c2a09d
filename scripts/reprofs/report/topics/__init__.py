"""The topics of the report, one module each: pure functions of a study that give facts, tables and figures.

report/contents.py has their order and says which studies have them; their notebooks have the prose.
"""
