"""The page's look, in light and dark."""

STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --ink: #1c2024; --soft: #5d666f; --line: #dfe2e4; --rung: #2f6f9f; --peer: #b98a3d; --good: #1d7a46;
  --bad: #b3362c; --card: #f2f3f1; --floor: #b3362c; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e4e6e8; --soft: #97a1aa; --line: #31373d; --rung: #5aa0d2; --peer: #d3aa63;
  --good: #5fc48c; --bad: #ef7c70; --card: #1e2226; --floor: #ef7c70; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0; font-size: 2rem; line-height: 1.2; }
h1.task { margin-top: 4rem; font-size: 1.5rem; }
h2 { margin: 2.5rem 0 .6rem; font-size: 1.2rem; }
.kind, .note, .remarks { color: var(--soft); font-size: .9rem; }
.kind { margin: 0 0 .2rem; }
.conclusion { font-size: 1.1rem; max-width: 52rem; }
.remarks { padding-left: 1.1rem; }
.warning { border-left: .25rem solid var(--bad); background: var(--card); padding: .6rem .9rem; max-width: 52rem; }
.wide { overflow-x: auto; }
.hint { display: none; margin: 0 0 .3rem; color: var(--soft); font-size: .8rem; }
@media (max-width: 42rem) { .hint { display: block; } body { padding: 1.25rem .9rem 3rem; } h1 { font-size: 1.6rem; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .6rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; }
th.text, td.text { text-align: left; }
td.text { white-space: normal; min-width: 7.5rem; }
th:first-child, td:first-child { padding-left: 0; min-width: 5.5rem; }
.options { display: block; color: var(--soft); font-size: .85em; }
.long { display: block; text-align: left; white-space: normal; min-width: 18rem; }
tr.fastest b { color: var(--good); }
tr.bad b { color: var(--bad); }
tr.none td { color: var(--soft); }
i { color: var(--peer); font-style: normal; font-size: .8rem; }
dl { display: grid; grid-template-columns: minmax(8rem, auto) 1fr; gap: .25rem 1.25rem; margin: 0; font-size: .9rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--card); padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; font-size: .85rem; }
svg { width: 100%; min-width: 38rem; height: auto; display: block; font-size: 13px; fill: var(--ink); }
svg .grid { stroke: var(--line); }
svg .floor { stroke: var(--floor); stroke-dasharray: 4 3; }
svg text.floor { stroke: none; fill: var(--floor); }
svg .tick { text-anchor: middle; fill: var(--soft); font-size: 11.5px; }
svg text.tick.floor { fill: var(--floor); }
svg text.tick.start { text-anchor: start; }
svg text.tick.end { text-anchor: end; }
svg .time { paint-order: stroke; stroke: var(--paper); stroke-width: 5px; stroke-linejoin: round; }
svg .name { text-anchor: end; font-weight: 600; }
svg .options { text-anchor: end; fill: var(--soft); font-size: 10.5px; }
svg rect.rung { fill: var(--rung); }
svg rect.peer { fill: var(--peer); }
svg .sample { fill: var(--ink); stroke: var(--paper); stroke-width: .8; }
"""
