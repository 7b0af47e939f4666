"""The studies and their variants, as tables.

A study is a list of variants of one recipe. A variant is a few settings on top of the recipe. To
add a study or a variant, add an entry here. A variant may also be the network of another one,
scored in another way. Then nothing is trained for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reconet.errors import RecipeError, pick
from reconet.models.context import CONTEXTS
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe
from reconet.system.readable import counted

# Those of the paper's six scales that suit a small image: smaller and larger than its own.
MULTI_SCALE = ("eval.scales=[0.75, 1.0, 1.25, 1.5]", "eval.flip=true")
RANKS = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128)
COMPONENTS = (32, 64, 128, 256, 512)
RECONET = ("model.context=reconet", "model.options={}")
ASPP = ("deeplabv3", "deeplabv3plus")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Some settings on top of a recipe."""

    name: str  # also the name of a directory
    about: str
    settings: tuple[str, ...] = ()
    at_stride_16: tuple[str, ...] = ()  # further settings, if that is the recipe's output stride
    network_of: str | None = None  # the variant whose networks are scored again
    on_features: bool = True  # False: with cached features only if it is asked for by name

    def settings_on(self, base: Recipe) -> tuple[str, ...]:
        """Return its settings on top of a recipe."""
        more = self.at_stride_16 if base.model.output_stride == 16 else ()
        return (*self.settings, *more)

    def recipe(self, base: Recipe, seed: int) -> Recipe:
        """Return the recipe of this variant with a seed."""
        return apply_overrides(base, [*self.settings_on(base), f"train.seed={seed}"])


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question, and the variants that answer it."""

    name: str
    question: str
    baseline: str  # the variant that the others are compared with, unless another is named
    variants: Callable[[], tuple[Variant, ...]]
    quick: tuple[str, ...] | None = None  # the variants of --quick; None: all
    ranked: bool = False  # tables and figures begin with the best variant
    seeds: int = 5
    quick_seeds: int = 3


def _head(name: str, about: str, context: str, *options: str) -> Variant:
    common = (f"model.context={context}", "model.options={}")
    settings = (*common, *(f"model.options.{option}" for option in options))
    return Variant(name=name, about=about, settings=settings)


def _parts_of_reconet() -> tuple[Variant, ...]:
    return (
        _head("without", "reduction and fuse of RecoNet", "reconet", "tgm_trm=false", "gpm=false"),
        _head("gpm", "without + GPM", "reconet", "tgm_trm=false", "gpm=true"),
        _head("tgm_trm", "without + TGM and TRM", "reconet", "tgm_trm=true", "gpm=false"),
    )


def _components() -> tuple[Variant, ...]:
    heads = (
        _head("plain", "the backbone's last stage straight into the classifier", "plain"),
        _head("fcn", "a 3x3 reduction before the classifier, no context", "fcn"),
        *_parts_of_reconet(),
        _head("both", "without + TGM and TRM + GPM: RecoNet", "reconet"),
        _head("plus", "without + fragments: RecoNet+", "reconet_plus", "gpm=false"),
        _head("plus_gpm", "without + fragments + GPM", "reconet_plus", "gpm=true"),
        _head("plus_separable", "RecoNet+ with separable masks", "reconet_plus", "separable=true"),
    )
    return (
        *(replace(head, settings=(*head.settings, "model.aux=false")) for head in heads),
        Variant(
            name="aux",
            about="both + auxiliary loss",
            settings=(*RECONET, "model.aux=true"),
            on_features=False,  # it needs the features of c3 too
        ),
        Variant(
            name="ms_flip",
            about="the networks of aux, several scales and mirror images",
            settings=(*RECONET, "model.aux=true", *MULTI_SCALE),
            network_of="aux",
            on_features=False,
        ),
    )


def _rank() -> tuple[Variant, ...]:
    """Return ranks of the recipe's own context. One without ranks does not know the option."""
    return tuple(
        Variant(
            name=f"r{rank}",
            about=f"low-rank tensor of {counted(rank, 'rank')}",
            settings=(f"model.rank={rank}", f"model.options.rank={rank}"),
        )
        for rank in RANKS
    )


def _contexts() -> tuple[Variant, ...]:
    """Return all contexts, and RecoNet without some of its parts."""
    contexts = tuple(
        Variant(
            name=name,
            about=f"context {name}",
            settings=(f"model.context={name}", "model.options={}"),
            # Its authors' dilations belong to a stride. Beyond the map they would see nothing.
            at_stride_16=("model.options.rates=[6, 12, 18]",) if name in ASPP else (),
        )
        for name in sorted(CONTEXTS)
    )
    return (*contexts, *_parts_of_reconet())


def _attention() -> tuple[Variant, ...]:
    """Return variants in which only the core differs.

    The reduction before it, the 1x1 convolution after it and dropout stay the same.
    """

    def variant(name: str, about: str, *settings: str) -> Variant:
        common = ("model.options={}", "model.options.gpm=false", "model.aux=false")
        return Variant(name=name, about=about, settings=(*common, *settings))

    return (
        variant(
            "without",
            "no low-rank tensor, all else equal",
            "model.context=reconet",
            "model.options.tgm_trm=false",
        ),
        variant("paper", "the paper's form: A * X", "model.context=reconet"),
        variant("plus", "RecoNet+: Y from fragments", "model.context=reconet_plus"),
    )


def _project() -> tuple[Variant, ...]:
    """Return the recipe's network with all channels of c4, and with fewer. Its context follows."""
    full = Variant(name="full", about="all channels of c4", settings=("model.project=null",))
    return (
        full,
        *(
            Variant(
                name=f"p{components}",
                about=f"c4 projected to {components} components",
                settings=(f"model.project={components}",),
            )
            for components in COMPONENTS
        ),
    )


STUDIES: dict[str, Study] = {
    "components": Study(
        name="components",
        question="What does each component add?",
        baseline="without",
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
        ranked=True,
        seeds=3,
        quick_seeds=1,  # all contexts in minutes; more seeds can be added later
    ),
    "attention": Study(
        name="attention",
        question="Is the attention alive?",
        baseline="without",
        variants=_attention,
    ),
    "project": Study(
        name="project",
        question="What does projecting c4 cost in score, and what does it save?",
        baseline="full",
        variants=_project,
        quick=("full", "p32", "p64"),
        seeds=3,
    ),
}


def choose_variants(
    study: Study, names: Sequence[str] | None, *, quick: bool, on_features: bool = False
) -> tuple[Variant, ...]:
    """Return the named variants, and those whose networks they score, in the study's order.

    By default these are all, or those of --quick, or those that suit cached features.
    """
    table = {variant.name: variant for variant in study.variants()}
    if names is None:
        names = study.quick if quick and study.quick is not None else list(table)
        names = [name for name in names if table[name].on_features or not on_features]
    wanted = set(names)
    if not wanted:
        raise RecipeError("--variants needs at least one name; --list shows them.")
    chosen = [pick(table, name, f"variant of the study {study.name}:") for name in wanted]
    wanted |= {variant.network_of for variant in chosen if variant.network_of is not None}
    return tuple(variant for variant in table.values() if variant.name in wanted)


def choose_baseline(study: Study, variants: Sequence[Variant], name: str | None) -> str:
    """Return the named variant, or the study's baseline, or the first if that is left out."""
    table = {variant.name: variant for variant in variants}
    if name is not None:
        return pick(table, name, "baseline, not a variant of this run:").name
    return study.baseline if study.baseline in table else variants[0].name
