"""Names of the files in a run directory."""

RECIPE = "recipe.json"
BEST = "best.safetensors"  # the network with the best validation score
LAST = "last.pt"  # the state that a training resumes from
LOG = "log.jsonl"
STARTS = "starts.jsonl"  # where and when the training was started
LOCK = ".lock"
SHEET = "predictions.png"
REPORT = "report.html"
