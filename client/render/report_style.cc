#include "client/render/report_style.h"

namespace coat {

const char* const kReportStyle = R"(
:root { color-scheme: light dark;
  --page: #ffffff; --text: #1b1f24; --quiet: #57606a; --rule: #d0d7de; --card: #f6f8fa;
  --link: #0550ae; --good: #116329; --bad: #a40e26; --warn: #7d4e00;
  --c0: #0550ae; --c1: #bc4c00; --c2: #116329; --c3: #8250df;
  --c4: #0a7ea4; --c5: #a40e26; --c6: #7d6608; --c7: #6e7781; }
@media (prefers-color-scheme: dark) { :root {
  --page: #0d1117; --text: #e6edf3; --quiet: #9da7b3; --rule: #3d444d; --card: #161b22;
  --link: #79c0ff; --good: #56d364; --bad: #ff7b72; --warn: #e3b341;
  --c0: #79c0ff; --c1: #ffa657; --c2: #56d364; --c3: #d2a8ff;
  --c4: #39c5cf; --c5: #ff7b72; --c6: #e3b341; --c7: #8b949e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: .5rem 0; line-height: 1.2; }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--rule); }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: .5rem; background: var(--page); padding: .5rem; }
nav ul, .legend, .tiles { list-style: none; padding: 0; margin: .5rem 0; display: flex;
  flex-wrap: wrap; gap: .25rem 1rem; }
nav a { display: inline-block; padding: .25rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr));
  gap: .75rem; }
.tiles li { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem;
  padding: .5rem .75rem; }
.tiles b { display: block; font-size: 1.2rem; line-height: 1.3; }
.tiles span, .note, .none, footer { color: var(--quiet); font-size: .875rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
figure { margin: 1rem 0; }
figcaption { font-weight: 600; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: 0 2rem; }
.plot { position: relative; height: 16rem; margin: .75rem 1.5rem 2rem 4.75rem; }
.plot svg, .columns svg { display: block; width: 100%; height: 100%; overflow: visible; }
.columns svg { height: 10rem; border-bottom: 1px solid var(--quiet); }
.labels { display: flex; font-size: .7rem; color: var(--quiet); }
.labels span { flex: 1 1 0; text-align: center; min-width: 0; }
.ys span { position: absolute; right: calc(100% + .5rem); transform: translateY(-50%);
  font-size: .75rem; color: var(--quiet); white-space: nowrap; }
.xs span { position: absolute; top: calc(100% + .35rem); transform: translateX(-50%);
  font-size: .75rem; color: var(--quiet); white-space: nowrap; }
svg path { vector-effect: non-scaling-stroke; fill: none; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .line { stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
svg .dash { stroke-dasharray: 7 4; }
svg .dots { stroke: var(--c); stroke-width: 9; stroke-linecap: round; }
svg .area { fill: var(--c); fill-opacity: .75; stroke: var(--page); stroke-width: 1; }
svg .bar { fill: var(--c); }
.key { display: inline-block; width: 1.25rem; margin-right: .4rem; vertical-align: middle;
  border-top: 3px solid var(--c); }
.key.dash { border-top-style: dashed; }
.key.dot { width: .6rem; height: .6rem; border: 0; border-radius: 50%; background: var(--c); }
.key.box { width: .8rem; height: .8rem; border: 0; background: var(--c); }
.meter { margin: .35rem 0 .75rem; }
.meter div { height: .6rem; margin: 2px 0; background: var(--c); border-radius: 0 3px 3px 0;
  min-width: 1px; }
.scroll { overflow-x: auto; max-height: 28rem; margin: .5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .875rem; }
caption { text-align: left; color: var(--quiet); padding-bottom: .25rem; }
th, td { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; overflow-wrap: normal; }
tbody th { font-weight: 600; }
summary { cursor: pointer; padding: .35rem 0; color: var(--link); }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem;
  padding: .75rem; overflow-x: auto; font-size: .875rem; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
@media print { details:not([open]) > *:not(summary) { display: none; } }
)";

}  // namespace coat
