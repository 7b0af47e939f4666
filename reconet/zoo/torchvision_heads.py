"""The heads of torchvision's segmentation networks."""

from reconet.zoo.head import Head

HEADS = (
    Head(
        context="deeplabv3",
        mark="classifier.0.convs.",
        names={
            **{
                f"classifier.0.convs.{branch}.{layer}": f"context.aspp.branches.{branch}.{layer}"
                for branch in range(4)
                for layer in (0, 1)
            },
            "classifier.0.convs.4.1": "context.aspp.branches.4.project.0",
            "classifier.0.convs.4.2": "context.aspp.branches.4.project.1",
            "classifier.0.project.0": "context.aspp.project.0",
            "classifier.0.project.1": "context.aspp.project.1",
            "classifier.1": "context.last.0.0",
            "classifier.2": "context.last.0.1",
            "classifier.4": "classify",
        },
        options=lambda state: {"last_3x3": True},
    ),
    Head(
        context="fcn",
        mark="classifier.0.weight",
        names={
            "classifier.0": "context.reduce.0",
            "classifier.1": "context.reduce.1",
            "classifier.4": "classify",
        },
    ),
)

AUXILIARY = {
    "aux_classifier.0": "aux.reduce.0",
    "aux_classifier.1": "aux.reduce.1",
    "aux_classifier.4": "aux.classify",
}
