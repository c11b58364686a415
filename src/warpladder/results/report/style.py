"""CSS of the page, in light and dark, for wide screens, phones and paper. Series have the colours of Okabe and Ito,
which colour-blind readers can distinguish.
"""

STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --ink: #1c2024; --soft: #59626b; --line: #dadee1; --rung: #2f6f9f;
  --peer: #a8590a; --good: #1b6e40;
  --bad: #b3362c; --card: #f2f3f1; --floor: #b3362c; --s0: #0072b2; --s1: #c25200; --s2: #00805c; --s3: #b0568a;
  --s4: #8a6d00; --s5: #2b86bd;
  --s6: #5f4bb6; --s7: #333a40; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e4e6e8; --soft: #a3adb6;
  --line: #3a4148; --rung: #5aa0d2;
  --peer: #e0a24c; --good: #5fc48c; --bad: #ef7c70; --card: #1e2226; --floor: #ef7c70; --s0: #56b4e9; --s1: #e98a3c;
  --s2: #2fc49a; --s3: #dd94bd;
  --s4: #e0c64a; --s5: #8fb8ff; --s6: #b3a4f5; --s7: #d5d9dd; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  overflow-wrap: break-word;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0; font-size: 2rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.75rem 0 .6rem; font-size: 1.25rem; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1.02rem; overflow-wrap: anywhere; }
a { color: var(--rung); }
:focus-visible { outline: 3px solid var(--rung); outline-offset: 2px; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .3rem .7rem; }
nav ul { list-style: none; margin: .8rem 0 1.4rem; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem;
  font-size: .9rem; }
nav a { display: inline-block; padding: .2rem 0; }
.kind, .note, .remarks, figcaption { color: var(--soft); font-size: .9rem; }
.kind { margin: 0 0 .2rem; }
.note { max-width: 58rem; }
.conclusion { font-size: 1.1rem; max-width: 52rem; }
.remarks { padding-left: 1.1rem; overflow-wrap: anywhere; }
.warning { border-left: .25rem solid var(--bad); background: var(--card); padding: .6rem .9rem; max-width: 52rem;
  overflow-wrap: anywhere; }
.sorted > input { position: absolute; opacity: 0; }
.sorted > .by { display: none; }
.sorted > input:nth-of-type(1):checked ~ .by:nth-of-type(1),
.sorted > input:nth-of-type(2):checked ~ .by:nth-of-type(2),
.sorted > input:nth-of-type(3):checked ~ .by:nth-of-type(3),
.sorted > input:nth-of-type(4):checked ~ .by:nth-of-type(4),
.sorted > input:nth-of-type(5):checked ~ .by:nth-of-type(5),
.sorted > input:nth-of-type(6):checked ~ .by:nth-of-type(6),
.sorted > input:nth-of-type(7):checked ~ .by:nth-of-type(7),
.sorted > input:nth-of-type(8):checked ~ .by:nth-of-type(8),
.sorted > input:nth-of-type(9):checked ~ .by:nth-of-type(9),
.sorted > input:nth-of-type(10):checked ~ .by:nth-of-type(10),
.sorted > input:nth-of-type(11):checked ~ .by:nth-of-type(11) { display: block; }
.sorted label { cursor: pointer; text-decoration: underline dotted; }
.sorted > input:focus-visible ~ .by { outline: 2px solid var(--rung); }
.scroll { overflow-x: auto; }
.hint { display: none; margin: 0 0 .3rem; color: var(--soft); font-size: .8rem; }
.wide { timeline-scope: --wide; } .wide > .scroll { scroll-timeline: --wide inline; }
@supports (timeline-scope: --wide) { .wide > .hint { display: block; height: 0; margin: 0; overflow: hidden;
  animation: more linear; animation-timeline: --wide; } }
@keyframes more { from, to { height: auto; margin: 0 0 .3rem; } }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums;
  margin-bottom: .8rem; }
th, td { padding: .4rem .6rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-weight: 400; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; }
th.text, td.text { text-align: left; }
td.text, tbody th.text { white-space: normal; min-width: 7.5rem; overflow-wrap: break-word; }
th:first-child { padding-left: 0; min-width: 5.5rem; }
.options { display: block; color: var(--soft); font-size: .85em; }
.long { display: block; text-align: left; white-space: normal; min-width: 18rem; }
tr.fastest b { color: var(--good); }
tr.bad b { color: var(--bad); }
tr.none td, tr.none th { color: var(--soft); }
tr.changed .options b { color: var(--ink); }
i { color: var(--peer); font-style: normal; font-size: .8rem; }
tr.fastest i { color: var(--good); }
tr i.bad { color: var(--bad); }
dl { display: grid; grid-template-columns: minmax(8rem, auto) 1fr; gap: .25rem 1.25rem; margin: 0; font-size: .9rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--card); padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; font-size: .85rem;
  margin: 0; }
.code { font-family: ui-monospace, "SFMono-Regular", Consolas, "Liberation Mono", monospace; }
details { border-top: 1px solid var(--line); padding: .4rem 0; }
summary { cursor: pointer; font-size: .95rem; overflow-wrap: anywhere; padding: .2rem 0; }
summary small { color: var(--soft); margin-left: .4rem; }
.pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1rem; }
figure { margin: 0 0 1rem; }
figure.code { min-width: 0; margin: .3rem 0; font-family: inherit; }
figure.code pre { max-height: 26rem; overflow: auto; font-size: .75rem; line-height: 1.4; }
.plot svg { display: block; width: 100%; max-width: 32rem; height: auto; stroke-linejoin: round; font-family: inherit;
  overflow: visible; }
.finding { max-width: 52rem; }
p code, li code { font: .88em ui-monospace, "SFMono-Regular", Consolas, "Liberation Mono", monospace; }
code span, .option { display: inline-block; max-width: 100%; overflow-wrap: anywhere; }
.claims { list-style: none; margin: .4rem 0 1rem; padding: 0; max-width: 58rem; }
.claims li { border-left: .2rem solid var(--line); padding: .1rem 0 .1rem .8rem; margin: 0 0 .8rem; }
.claims li > span { display: block; font-size: .9rem; }
.claims li > span:first-child { font-size: 1rem; } .claims b { font-weight: 500; }
.verdict { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); } .partly { color: var(--peer); }
.open { color: var(--soft); }
.boxes { list-style: none; margin: .4rem 0 1rem; padding: 0; display: flex; flex-wrap: wrap; gap: .5rem 1.6rem;
  align-items: center; }
.boxes li { position: relative; border: 1.5px solid var(--rung); border-radius: .3rem; background: var(--card);
  padding: .4rem .6rem; min-width: 6.5rem; max-width: 12rem; font-size: .85rem; min-height: calc(6rem * var(--size)); }
.boxes b { font-weight: 600; }
.flows li:not(:last-child)::after { content: "\\2192"; position: absolute; right: -1.35rem; top: calc(50% - .75em);
  color: var(--soft); font-size: 1rem; }
.photo { display: block; max-width: 100%; height: auto; image-rendering: pixelated; }
.plot text { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round; }
@media screen and (max-width: 46rem) { .hint { display: block; } body { padding: 1.25rem .9rem 3rem; } h1 {
  font-size: 1.6rem; }
  table { font-size: .8rem; } th, td { padding: .3rem .35rem; }
  th:first-child { position: sticky; left: 0; background: var(--paper); max-width: 9rem; white-space: normal;
  overflow-wrap: break-word; }
  td.text { min-width: 11rem; } dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } .pair {
  grid-template-columns: minmax(0, 1fr); }
  nav a { padding: .45rem 0; } .boxes { flex-direction: column; align-items: stretch; gap: 1.3rem; }
  .boxes li { max-width: none; min-height: 0; }
  .flows li:not(:last-child)::after { content: "\\2193"; right: 50%; top: auto; bottom: -1.35rem; } }
@media print { :root { --paper: #fff; --card: #fff; }
  body { max-width: none; padding: 0; font-size: 11pt; } nav, .skip, .wide > .hint { display: none; } .scroll {
  overflow: visible; }
  table { font-size: 7.5pt; } th, td { padding: .2rem .3rem; } td.text, tbody th.text { min-width: 4rem; } .long {
  min-width: 8rem; }
  pre, figure.code pre { max-height: none; overflow: visible; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: 6.5pt; background: none; padding: 0; }
  .plot { break-inside: avoid; } h2, h3, summary { break-after: avoid; } tr { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } }
"""
