"""reconet share."""

from pathlib import Path

from reconet.cli.arguments import IMPORT, NETWORK, REQUIRED, option
from reconet.cli.output import print_line, show_progress


def share(
    network: str = NETWORK,
    out: Path = option("--out DIR", "Folder to write.", REQUIRED),
    licence: str | None = option(
        "--licence ID", "Licence of the weights, such as apache-2.0 or mit."
    ),
    name: str | None = option("--name TEXT", "Title of the model card."),
    compact: bool = option("--compact", "Write weights of 8 bits: a quarter of the bytes.", False),
    push: str | None = option("--push OWNER/NAME", "Also upload the folder to the hub."),
    private: bool = option("--private", "If --push creates a repository, make it private.", False),
    imports: list[str] | None = IMPORT,
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
