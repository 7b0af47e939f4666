"""Names of the files in a run directory."""

RECIPE = "recipe.json"
BEST = "best.safetensors"  # the network with the best validation score
VALIDATION = "validation.json"  # its confusion matrix, and some of its predictions
LAST = "last.pt"  # the state that a training resumes from
LOG = "log.jsonl"
STARTS = "starts.jsonl"  # where and when the training was started
COUNTS = "counts-{}.npz"  # of each image of a split, as evaluate counted them
CLASS_COUNTS = "class_counts.json"  # pixels of each class in the training split
RECORDS = "records.json"  # ids of the run in other loggers
LOCK = ".lock"
SHEET = "predictions.png"
REPORT = "report.html"
