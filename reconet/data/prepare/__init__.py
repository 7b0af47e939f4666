"""What the conversions of datasets share. The conversions themselves are in data/sets/.

run.py        PreparePlan: jobs that write one file each, and run_plan()
instances.py  draw the instances of a COCO-like json
"""
