"""The studies and their variants, as tables.

A study is a list of variants of one recipe. A variant is a few settings on top of the recipe. To
add a study or a variant, add an entry here. A variant may also be the network of another one,
scored in another way. Then nothing is trained for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reconet.errors import RecipeError, pick
from reconet.models.context import CONTEXTS
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe

# Those of the paper's six scales that suit a small image: smaller and larger than its own.
MULTI_SCALE = ("eval.scales=[0.75, 1.0, 1.25, 1.5]", "eval.flip=true")
RANKS = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128)
RECONET = ("model.context=reconet", "model.options={}")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Some settings on top of a recipe."""

    name: str  # also the name of a directory
    about: str
    settings: tuple[str, ...] = ()
    network_of: str | None = None  # the variant whose networks are scored again

    def recipe(self, base: Recipe, seed: int) -> Recipe:
        """Return the recipe of this variant with a seed."""
        return apply_overrides(base, [*self.settings, f"train.seed={seed}"])


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question, and the variants that answer it."""

    name: str
    question: str
    baseline: str  # the variant that the others are compared with
    variants: Callable[[], tuple[Variant, ...]]
    quick: tuple[str, ...] | None = None  # the variants of --quick; None: all
    seeds: int = 5
    quick_seeds: int = 3


def _components() -> tuple[Variant, ...]:
    reduced = ("model.options.tgm_trm=true", "model.options.gpm=false", "model.aux=false")
    return (
        Variant(
            name="plain",
            about="the backbone's last stage straight into the classifier",
            settings=("model.context=plain", "model.options={}", "model.aux=false"),
        ),
        Variant(
            name="fcn",
            about="a 3x3 reduction before the classifier, no context",
            settings=("model.context=fcn", "model.options={}", "model.aux=false"),
        ),
        Variant(name="tgm_trm", about="+ TGM and TRM", settings=(*RECONET, *reduced)),
        Variant(name="gpm", about="+ GPM", settings=(*RECONET, "model.aux=false")),
        Variant(name="aux", about="+ auxiliary loss", settings=(*RECONET, "model.aux=true")),
        Variant(
            name="ms_flip",
            about="the same networks, several scales and mirror images",
            settings=(*RECONET, "model.aux=true", *MULTI_SCALE),
            network_of="aux",
        ),
    )


def _rank() -> tuple[Variant, ...]:
    return tuple(
        Variant(
            name=f"r{rank}",
            about=f"sum of {rank} rank-one tensors",
            settings=("model.context=reconet", f"model.rank={rank}"),
        )
        for rank in RANKS
    )


def _contexts() -> tuple[Variant, ...]:
    return tuple(
        Variant(
            name=name,
            about=f"context {name}",
            settings=(f"model.context={name}", "model.options={}"),
        )
        for name in sorted(CONTEXTS)
    )


def _attention() -> tuple[Variant, ...]:
    """Return variants in which only the core differs.

    The reduction before it, the 1x1 convolution after it and dropout stay the same.
    """

    def variant(name: str, about: str, *settings: str) -> Variant:
        common = (*RECONET, "model.options.gpm=false", "model.aux=false")
        return Variant(name=name, about=about, settings=(*common, *settings))

    return (
        variant("without", "no attention, all else equal", "model.options.tgm_trm=false"),
        variant("frozen", "attention as it is at the start", "optim.core_lr_factor=0"),
        variant("paper", "the paper's form"),
        variant("norm", "profiles standardised", "model.options.profile_norm=true"),
        variant("sum", "sum over ranks, not mean", "model.options.rank_weights=sum"),
        variant("fast", "core learns 10 times faster", "optim.core_lr_factor=10"),
        variant(
            "norm_sum",
            "profiles standardised, sum over ranks",
            "model.options.profile_norm=true",
            "model.options.rank_weights=sum",
        ),
        variant(
            "norm_sum_fast",
            "the same, and the core learns 100 times faster",
            "model.options.profile_norm=true",
            "model.options.rank_weights=sum",
            "optim.core_lr_factor=100",
        ),
        variant(
            "norm_basis",
            "profiles standardised, channel gates from a shared basis",
            "model.options.profile_norm=true",
            "model.options.shared_basis=true",
        ),
    )


STUDIES: dict[str, Study] = {
    "components": Study(
        name="components",
        question="What does each component add?",
        baseline="fcn",
        variants=_components,
    ),
    "rank": Study(
        name="rank",
        question="Which rank does the attention need?",
        baseline="r64",
        variants=_rank,
        quick=("r1", "r4", "r16", "r64", "r128"),
    ),
    "contexts": Study(
        name="contexts",
        question="Which context module scores best on equal terms?",
        baseline="fcn",
        variants=_contexts,
        seeds=3,
        quick_seeds=1,  # all contexts in minutes; more seeds can be added later
    ),
    "attention": Study(
        name="attention",
        question="Is the attention alive, and what makes it so?",
        baseline="without",
        variants=_attention,
    ),
}


def choose_variants(
    study: Study, names: Sequence[str] | None, *, quick: bool
) -> tuple[Variant, ...]:
    """Return the named variants, and those whose networks they score, in the study's order."""
    table = {variant.name: variant for variant in study.variants()}
    wanted = set(names if names is not None else (quick and study.quick) or table)
    if not wanted:
        raise RecipeError("--variants needs at least one name; --list shows them.")
    chosen = [pick(table, name, f"variant of the study {study.name}:") for name in wanted]
    wanted |= {variant.network_of for variant in chosen if variant.network_of is not None}
    return tuple(variant for variant in table.values() if variant.name in wanted)
