"""What `make demo` runs: build RecoNet, run it on a generated picture, show what it costs."""

import torch

import reconet
from reconet.cli import main
from reconet.models.liveness import liveness

torch.manual_seed(0)
model = reconet.create_model("reconet", backbone="resnet50", num_classes=21).eval()

# Any size works, though the row and column weights belong to the 512 x 512 crop.
rows, columns = torch.meshgrid(torch.linspace(0, 1, 333), torch.linspace(0, 1, 500), indexing="ij")
image_bchw = torch.stack([rows, columns, (rows - columns).abs()])[None]
with torch.inference_mode():
    logits = model(image_bchw)
    x_bchw = model.context.reduce(model.backbone(model.normalise(image_bchw)).c4)
    figures = liveness(model.context.core.factors(x_bchw))

height, width = rows.shape
print(f"A {width} x {height} picture gives logits {tuple(logits.main_bkhw.shape)}.")
print(
    f"Its attention, untrained: spread {figures.attention_spread:.3f} of the mean, "
    f"effective rank {figures.effective_rank:.2f}.\n"
)
main(["cost", "voc12/reconet_r50"])
main(["cost", "--paper"])
