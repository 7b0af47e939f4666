"""Tell where a module of 0.1 is now, if somebody imports it by its old name."""

import sys
from collections.abc import Sequence
from types import ModuleType

# Old and new names, both without "reconet." before them.
MOVED = {
    "bench_data": "bench.data",
    "bench_evaluate": "bench.evaluate",
    "bench_model": "bench.model",
    "bench_plot": "bench.plot",
    "bench_train": "bench.train",
    "cli.benches": "cli.bench",
    "cli.common": "cli.arguments",
    "cli.costs": "cli.cost",
    "cli.datasets": "cli.data",
    "cli.explains": "cli.explain",
    "cli.exports": "cli.export",
    "cli.predicts": "cli.predict",
    "cli.reports": "cli.report",
    "cli.runs": "cli.train",
    "cli.serves": "cli.serve",
    "cli.shown": "cli.output",
    "cli.studies": "cli.study",
    "cost_paper": "cost.paper",
    "cpu": "system.hardware",
    "data.ade20k": "data.sets.ade20k",
    "data.builtin": "data.scenes.dataset",
    "data.camvid": "data.sets.camvid",
    "data.cityscapes": "data.sets.cityscapes",
    "data.coco": "data.sets.coco",
    "data.cocostuff": "data.sets.cocostuff",
    "data.draw": "data.images.draw",
    "data.folder": "data.sets.folder",
    "data.folder_masks": "data.sets.folder_masks",
    "data.indexed_png": "data.images.indexed_png",
    "data.instances": "data.prepare.instances",
    "data.jpeg_header": "data.images.jpeg_header",
    "data.names": "data.classes",
    "data.pcontext": "data.sets.pcontext",
    "data.prepare_coco": "data.sets.coco",
    "data.prepare_pcontext": "data.sets.pcontext",
    "data.prepare_voc12": "data.sets.voc12",
    "data.scenes_paint": "data.scenes.paint",
    "data.siftflow": "data.sets.siftflow",
    "data.voc12": "data.sets.voc12",
    "engine.display": "system.progress",
    "engine.distributed": "engine.sync_batchnorm",
    "engine.rundir": "engine.run_directory",
    "environment": "system.hardware",
    "evaluate": "evaluation",
    "explain.other": "explain.compute",
    "explain.points": "models.context",
    "explain.scene": "explain.compute",
    "explain.watched": "models.context.attention_maps",
    "export.check": "export.compare",
    "export.judge": "export.int8_score",
    "export.pictures": "export.sample_images",
    "export.write": "export.formats",
    "figures": "evaluation.benchmarks",
    "files": "system.files",
    "inside": "models.decompose",
    "losses": "models.losses",
    "metrics": "evaluation.metrics",
    "models.side_loss": "models.losses",
    "places": "system.paths",
    "predict": "inference.predictor",
    "predictions": "inference.folder",
    "protocol": "inference.protocol",
    "prune.cut": "prune.ranks",
    "recipe": "recipes.schema",
    "report.charts": "report.html",
    "report.gather": "report.run_results",
    "report.markup": "report.html",
    "report.matrix": "report.html",
    "report.pictures": "evaluation.kept_validation",
    "report.style": "report.html",
    "resampling": "inference.resampling",
    "runtime": "inference.network",
    "runtimes": "inference.backends",
    "schedule": "engine.optim",
    "serve.desk": "serve.service",
    "serve.facts": "serve.model_info",
    "serve.guard": "serve.security",
    "serve.jobs": "serve.work_queue",
    "serve.pictures": "serve.image_store",
    "serve.segment": "serve.pixel_map",
    "share": "export.share",
    "sheet": "evaluation.kept_validation",
    "study.cell": "study.run_trial",
    "study.grid": "study.scheduler",
    "study.grids": "study.variants",
    "study.paper": "study.variants",
    "study.run": "study.study",
    "submit": "evaluation.submit",
    "tables": "cli.tables",
    "tables_bench": "cli.tables",
    "turns": "system.timing",
    "void": "types",
    "world": "system.distributed",
}


class MovedModules:
    """A finder that is asked last. It finds nothing, but knows the new names.

    It has no base class: importlib.abc would nearly double the time of `import reconet`.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise an error with the new name if `name` is an old one."""
        new = MOVED.get(name.removeprefix("reconet.")) if name.startswith("reconet.") else None
        if new is not None:
            # Without its attribute `name`: Python hides an error that has it in `from reconet
            # import inside`.
            raise ModuleNotFoundError(f"{name} has moved to reconet.{new}.")


def explain_moved_modules() -> None:
    """Let imports of old names end in an error that gives the new name."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
