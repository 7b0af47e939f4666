"""reconet share."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import ImportOption, RunArgument
from reconet.cli.output import print_note

OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write.")]
LicenceOption = Annotated[
    str | None,
    typer.Option(
        "--licence", metavar="ID", help="Licence of the weights, such as apache-2.0 or mit."
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="TEXT", help="Title of the model card.")
]
PushOption = Annotated[
    str | None,
    typer.Option("--push", metavar="OWNER/NAME", help="Also upload the folder to the hub."),
]
PrivateOption = Annotated[
    bool, typer.Option("--private", help="If --push creates a repository, make it private.")
]


def share(
    run: RunArgument,
    out: OutOption,
    licence: LicenceOption = None,
    name: NameOption = None,
    push: PushOption = None,
    private: PrivateOption = False,
    imports: ImportOption = None,
) -> None:
    """Write a network and its model card to a folder for others.

    The card says how the network was trained, what it scores and what it costs, and shows images.
    Others open the folder, or its copy on the hub, with Predictor.from_pretrained.

    \b
    Examples:
      reconet share runs/first --out shared/first --licence apache-2.0
      reconet share runs/voc --out shared/voc --licence mit --push somebody/reconet-voc
    """
    from reconet.export import check_hub_id, upload_folder, write_shared_folder

    if push is not None:
        check_hub_id(push)
    folder = write_shared_folder(run, out, licence=licence, name=name)
    if licence is None:
        print_note(
            "no licence is stated, so others may look at the network but not use it. "
            "State one, for example with --licence apache-2.0."
        )
    print(folder)
    if push is not None:
        print(upload_folder(folder, push, private=private))
