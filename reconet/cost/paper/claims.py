"""Compare what the paper says about cost with the uniform count."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconet.cost.paper.module_table import CHANNELS, RANK, SIDE
from reconet.cost.paper.network_table import HeadCost
from reconet.cost.paper.table_row import PaperRow


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of the paper, and whether the uniform count agrees."""

    paper: str
    counted: str
    holds: bool


def paper_claims(rows: Sequence[PaperRow], heads: Sequence[HeadCost]) -> list[Claim]:
    """Compare each claim with the figures of the tables. All `heads` have one input size."""
    row = {r.method: r for r in rows}
    core = row["TGM+TRM"]
    times = {m: r.uniform_g / core.uniform_g for m, r in row.items() if r.table == "module"}
    others = {m: t for m, t in times.items() if not m.startswith(("TGM", "Non-Local"))}
    least = min(others, key=lambda m: others[m])
    order = RANK * CHANNELS * SIDE**2
    head = {h.name: h for h in heads}
    ours, lean, released = (head[n] for n in ("RecoNet", "EMANet, no last 3x3", "EMANet"))
    return [
        Claim(
            paper="TGM+TRM costs about 900 times less than Non-Local",
            counted=f"{times['Non-Local']:.0f} times less",
            holds=times["Non-Local"] >= 900,
        ),
        Claim(
            paper="and more than 100 times less than the others",
            counted=f"{min(others.values()):.1f} to {max(others.values()):.1f} times less",
            holds=min(others.values()) > 100,
        ),
        Claim(
            paper="TGM+TRM costs 0.0215 G, of order r*C*H*W",
            counted=f"{core.uniform_g:.4f} G, of which r*C*H*W is {order / 1e9:.4f} G",
            holds=core.uniform_g < 0.02155,
        ),
        Claim(
            paper="RecoNet has the smallest cost of all networks (41.9 G, EMANet 43.1 G)",
            counted=f"at one input, with classifier: {_g(ours)}; EMANet {_g(lean)} in the form "
            f"that has 43.1 G, {_g(released)} as released",
            holds=ours.macs < lean.macs,
        ),
        Claim(
            paper="TGM+TRM costs the least of all modules",
            counted=f"the nearest, {least}, costs {others[least]:.1f} times as much",
            holds=others[least] > 1,
        ),
    ]


def _g(head: HeadCost) -> str:
    return f"{head.macs / 1e9:.3f} G"
