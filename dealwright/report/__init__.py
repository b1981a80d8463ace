"""The report: pictures as inline SVG, pages from templates, and the plain table of results.

`build` reads reports/ and the games, `figures_*` draw, `transcripts` tells games, `browser` writes them all, `table`
writes text. What the page claims comes from the stage that measured it; only descriptions of single buyers' games are
counted here.
"""
