"""What the documents show of finished runs: tables and paragraphs between markers, made from `benchmarks/runs`.

    python -m streamfl_benchmarks.pages            makes them: `make results`
    python -m streamfl_benchmarks.pages --check    compares: `make results-check`

`templates/NAME.md.j2` makes what stands in a page between `<!-- results: NAME -->` and `<!-- end -->`, and
`templates/NAME.svg.j2` the picture `docs/NAME.svg`.
"""
