"""Scripts that write what the docs say. What measures is in benchmarks/.

make_contexts.py      write docs/contexts.md                     `make docs`
make_datasets.py      write the table of docs/datasets.md        `make docs`
make_scale.py         write the tables of docs/scale.md          `make docs`
make_tour.py          write the line links of docs/tour.md       `make docs`
make_studies.py       write the tables in docs/studies/          `make studies`
"""
