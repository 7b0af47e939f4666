"""The studies and their variants, as tables.

A study is a list of variants of one recipe. A variant is a few settings on top of the recipe. To
add a study or a variant, add an entry here. A variant may also be the network of another one,
scored in another way. Then nothing is trained for it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    paper: Mapping[str, float] = field(default_factory=dict)  # its mIoU in per cent, by variant
    paper_source: str = ""  # which table of the paper (Chen et al., ECCV 2020) has them


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
    settings = (*RECONET, "model.aux=true")
    # Cached features do not suit these: they need those of c3, and images at several scales.
    aux = Variant(name="aux", about="both + auxiliary loss", settings=settings, on_features=False)
    ms_flip = Variant(
        name="ms_flip",
        about="the networks of aux, several scales and mirror images",
        settings=(*settings, *MULTI_SCALE),
        network_of="aux",
        on_features=False,
    )
    plain = (replace(head, settings=(*head.settings, "model.aux=false")) for head in heads)
    return (*plain, aux, ms_flip)


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
    contexts = (_head(name, f"context {name}", name) for name in sorted(CONTEXTS))
    # The dilations of ASPP's authors belong to a stride. Beyond the map they would see nothing.
    rates = ("model.options.rates=[6, 12, 18]",)
    at_stride = (
        replace(head, at_stride_16=rates) if head.name in ASPP else head for head in contexts
    )
    return (*at_stride, *_parts_of_reconet())


def _attention() -> tuple[Variant, ...]:
    """Return variants in which only the core differs.

    The reduction before it, the 1x1 convolution after it and dropout stay the same.
    """
    cores = (
        ("without", "no low-rank tensor, all else equal", "reconet", "tgm_trm=false"),
        ("paper", "the paper's form: A * X", "reconet"),
        ("plus", "RecoNet+: Y from fragments", "reconet_plus"),
    )
    heads = (_head(*core, "gpm=false") for core in cores)
    return tuple(replace(head, settings=(*head.settings, "model.aux=false")) for head in heads)


def _project() -> tuple[Variant, ...]:
    """Return the recipe's network with all channels of c4, and with fewer. Its context follows."""
    fewer = (
        Variant(
            name=f"p{components}",
            about=f"c4 projected to {components} components",
            settings=(f"model.project={components}",),
        )
        for components in COMPONENTS
    )
    full = Variant(name="full", about="all channels of c4", settings=("model.project=null",))
    return (full, *fewer)


STUDIES: dict[str, Study] = {
    "components": Study(
        name="components",
        question="What does each component add?",
        baseline="without",
        variants=_components,
        paper={"plain": 68.7, "tgm_trm": 78.6, "both": 79.2, "aux": 79.8},
        paper_source='"Ablation study on different components": VOC 2012 val, ResNet-50, single '
        "scale; MS/Flip is printed for ResNet-101 (81.4 without it, 82.1 with it) and not for "
        "ResNet-50",
    ),
    "rank": Study(
        name="rank",
        question="Which rank does the attention need?",
        baseline="r64",
        variants=_rank,
        quick=("r1", "r4", "r16", "r64", "r128"),
        paper={
            "r16": 81.2,
            "r32": 81.8,
            "r48": 81.4,
            "r64": 82.1,
            "r80": 81.6,
            "r96": 81.0,
            "r128": 80.7,
        },
        paper_source='"Ablation study on tensor rank": VOC 2012 val, ResNet-101, multi-scale',
    ),
    "contexts": Study(
        name="contexts",
        question="Which context module scores best on equal terms?",
        baseline="fcn",
        variants=_contexts,
        ranked=True,
        seeds=3,
        quick_seeds=1,  # all contexts in minutes; more seeds can be added later
        paper={
            "deeplabv3plus": 79.45,
            "pspnet": 79.20,
            "danet": 79.64,
            "psanet": 78.71,
            "ccnet": 79.51,
            "emanet": 80.09,
            "reconet": 81.40,
        },
        paper_source='"Results on PASCAL-VOC12 val set": VOC 2012 val, ResNet-101, single scale',
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
