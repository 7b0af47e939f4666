"""The page around a report, and its style: light and dark, wide and narrow.

It is one file, and loads nothing from elsewhere.
"""

from reconet.report.html.charts import STYLES
from reconet.report.html.markup import Markup, join, tag

LIGHT = ("#0b62c4", "#c8560a", "#12805c", "#9b2f8a", "#80650a", "#00768f", "#b3261e", "#5c5c66")
DARK = ("#6cb0ff", "#ffa45c", "#58d3a0", "#f09be0", "#dfc050", "#63d2e8", "#ff8f85", "#b9b9c4")
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 4", "8 2 2 2")

# The browser must not load anything, not even by mistake.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

BODY = """
*{box-sizing:border-box}
:root{color-scheme:light dark;--paper:#fff;--panel:#f6f7f9;--ink:#1b1f26;--soft:#5a6270;
--line:#d9dde4;--accent:#0b62c4;--mark:#fff1cf}
html{background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
body{max-width:76rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.75rem 0 .75rem;padding-bottom:.3rem;
border-bottom:1px solid var(--line);overflow-wrap:anywhere}
h3{font-size:.95rem;margin:0 0 .25rem;font-weight:600}
section>h3{font-size:1.1rem;margin:1.5rem 0 .5rem}
p{margin:.25rem 0 .75rem;max-width:48rem}
.lead,.chart p,figcaption{color:var(--soft)}
.note{background:var(--mark);border-left:4px solid #d99a00;padding:.5rem .75rem;
border-radius:0 .3rem .3rem 0;overflow-wrap:anywhere}
.tiles{display:grid;gap:.75rem;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));
margin:1.25rem 0;padding:0;list-style:none}
.tiles li{background:var(--panel);border:1px solid var(--line);border-radius:.6rem;
padding:.7rem .9rem}
.tiles b{display:block;font-size:1.5rem;line-height:1.25;font-variant-numeric:tabular-nums}
.tiles span{color:var(--soft);font-size:.85rem}
.charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr))}
figure{margin:0}
.chart{background:var(--panel);border:1px solid var(--line);border-radius:.6rem;padding:.8rem;
display:flex;flex-direction:column}
.chart figcaption{flex:1}.chart h3{color:var(--ink)}.chart p{font-size:.85rem;margin:0 0 .4rem}
svg{display:block}
svg text{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
.plot{width:100%;height:auto;overflow:visible}
.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.faint{opacity:.28;stroke-width:1;stroke-dasharray:none!important}
.hidden{opacity:0}.dot:hover{opacity:1;stroke:var(--paper);stroke-width:1.5}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.4rem 0 0;padding:0;
font-size:.85rem;overflow-wrap:anywhere}
.key,.swatch{display:inline-block;margin-right:.45rem;vertical-align:.05em}
.key{width:1.6em;border-top:3px solid;vertical-align:.25em}
.swatch{width:.8em;height:.8em;border:1px solid var(--soft);border-radius:2px}
.wide{overflow-x:auto;margin:.5rem 0 1rem}
.beside{display:flex;flex-wrap:wrap;gap:1rem 3rem;align-items:flex-start}
.beside>*{max-width:100%}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
thead th{color:var(--soft);font-weight:500;white-space:nowrap}
tbody th{font-weight:500;min-width:6.5rem}
td code,.command{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.85em;overflow-wrap:anywhere}
.command{display:block;background:var(--panel);border:1px solid var(--line);border-radius:.4rem;
padding:.6rem .8rem;white-space:pre-wrap}
.best{font-weight:700}
.bars{list-style:none;margin:0;padding:0;columns:2 24rem;column-gap:2.5rem}
.bars li{break-inside:avoid;display:grid;grid-template-columns:8.5rem 1fr 3.6rem;gap:.6rem;
align-items:center;padding:.14rem 0;font-size:.9rem}
.bars .name{text-align:right;overflow-wrap:anywhere;line-height:1.2}
.bars .figure{font-variant-numeric:tabular-nums;text-align:right}
.track{display:block;background:var(--panel);border:1px solid var(--line);border-radius:3px;
overflow:hidden;height:1rem}
.stack{width:min(22rem,38vw);padding-top:.3rem}
.track.thin{height:.55rem;margin:1px 0}
.bar{display:block;height:100%;border-right:1px solid var(--soft)}
.matrix{max-width:100%;height:auto}
.matrix .cell{fill:var(--accent);stroke:var(--line)}
.matrix .none{fill:none;stroke:var(--line);stroke-dasharray:2 3}
.matrix .edge{stroke:var(--soft)}
.matrix .number{text-anchor:middle;fill:var(--ink);font-size:11px;pointer-events:none}
.matrix .light{fill:var(--paper)}
.framed{border:1px solid var(--line);width:min(100%,42rem)}
.row{display:grid;gap:.6rem;grid-template-columns:repeat(auto-fit,minmax(min(47%,10.5rem),1fr));
max-width:84rem;margin-bottom:1.4rem}
.row img{width:100%;height:auto;border-radius:.3rem;display:block;image-rendering:auto}
.row img.labels{image-rendering:pixelated}
section>.legend{margin:0 0 1.2rem}
.row figcaption{font-size:.85rem;padding-top:.2rem;overflow-wrap:anywhere}
.file{overflow-wrap:anywhere}
details{margin:.75rem 0}
summary{cursor:pointer;font-weight:600;padding:.4rem 0}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
"""

NIGHT = """:root{--paper:#14171c;--panel:#1c2027;--ink:#e8eaee;--soft:#a3abb8;--line:#343a45;
--accent:#6cb0ff;--mark:#3a2f12}"""

PRINT = """.chart,.tiles li,.row{break-inside:avoid}"""


def html_page(title: str, *content: str) -> str:
    """Build a complete page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(_css())),
    )
    return join([Markup("<!doctype html>\n"), tag("html", head, tag("body", *content), lang="en")])


def _css() -> str:
    night = NIGHT + _colours(DARK)
    dashes = "".join(f".line.s{i}{{stroke-dasharray:{d}}}" for i, d in enumerate(DASHES))
    return (
        f"{BODY}{_colours(LIGHT)}{dashes}"
        f"@media(prefers-color-scheme:dark){{{night}}}@media print{{{PRINT}}}"
    )


def _colours(colours: tuple[str, ...]) -> str:
    assert len(colours) == STYLES
    return "".join(
        f".line.s{i}{{stroke:{c}}}.dot.s{i}{{fill:{c}}}.key.k{i}{{border-color:{c}}}"
        f".bar.b{i}{{background:{c}}}"
        for i, c in enumerate(colours)
    )
