"""reconet share."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import ImportOption, NetworkArgument
from reconet.cli.output import print_line, show_progress

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
CompactOption = Annotated[
    bool, typer.Option("--compact", help="Write weights of 8 bits: a quarter of the bytes.")
]


def share(
    network: NetworkArgument,
    out: OutOption,
    licence: LicenceOption = None,
    name: NameOption = None,
    compact: CompactOption = False,
    push: PushOption = None,
    private: PrivateOption = False,
    imports: ImportOption = None,
) -> None:
    """Write a network and its model card to a folder for others.

    The card says how the network was trained, what it scores and what it costs, and shows images.
    Others open the folder, or its copy on the hub, with Predictor.from_pretrained. --compact keeps
    weights as int8 and leaves out what only a training needs. Every command reads such a file.

    \b
    Examples:
      reconet share runs/first --out shared/first --licence apache-2.0
      reconet share runs/first --out shared/small --compact --licence apache-2.0
      reconet share runs/voc --out shared/voc --licence mit --push somebody/reconet-voc
    """
    from reconet.export import check_hub_id, upload_folder, write_shared_folder
    from reconet.inference import find_network
    from reconet.models.trained import find_weights
    from reconet.system.files import readable_bytes
    from reconet.system.run_files import BEST

    if push is not None:
        check_hub_id(push)
    with show_progress("share") as progress:
        folder = write_shared_folder(
            network, out, licence=licence, name=name, compact=compact, progress=progress
        )
    print_line(str(folder))
    if compact:
        before = find_weights(find_network(network).path)
        sizes = [readable_bytes(path.stat().st_size) for path in (before, folder / BEST)]
        print(f"weights: {sizes[0]} before, {sizes[1]} now")
    if push is not None:
        print(upload_folder(folder, push, private=private))
