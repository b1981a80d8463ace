"use strict";
// Filters, the page of the list and the open game all stand in the address behind its #, so that each view can be
// linked and the browser's "back" works. Text is only ever put in as text nodes, so none of it can be markup.

const CHOICES = ["buyer", "seller", "category", "stop"];
const ROWS = 50;
const form = document.querySelector("form");
const shown = document.querySelector("#shown");
const files = new Map();
let all = null;

// index.js and games-N.js call these two.
function index(read) { all = read; show(); }
function games(number, played) { files.set(number, played); }

function state() { return new URLSearchParams(location.hash.slice(1)); }

function address(changes) {
  const wanted = state();
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") wanted.delete(name); else wanted.set(name, value);
  }
  return `#${wanted}`;
}

function make(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function money(amount) {
  return `$${amount.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

function number(value) { return value === null ? "–" : value.toFixed(3).replace("-", "−"); }

/** Return what a game has in a column; a choice in words. */
function of(game, name) {
  const value = all.games[name][game];
  return CHOICES.includes(name) ? form[name].options[value + 1].text : value;
}

function scenario(game) {
  const [title, description, list, budget, cost] = all.scenarios[all.games.scenario[game]];
  return { title, description, list, budget, cost };
}

function ending(game) {
  const price = of(game, "price");
  return price === null ? of(game, "stop") : `${of(game, "stop")} at ${money(price)}`;
}

function show() {
  const wanted = state();
  for (const name of CHOICES) {
    form[name].value = wanted.get(name) ?? "";
    if (form[name].selectedIndex < 0) form[name].selectedIndex = 0;
  }
  for (const name of ["from", "to"]) form[name].value = wanted.get(name) ?? "";
  const found = filtered();
  const open = Number(wanted.get("game") ?? NaN);
  listGames(found, open, Number(wanted.get("page")) || 1);
  if (open in all.games.price) openGame(open, found); else closeGame();
}

/** Return the numbers of the games that the filters let through. */
function filtered() {
  const chosen = CHOICES.map((name) => [all.games[name], form[name].selectedIndex - 1]).filter(([, choice]) => choice >= 0);
  const [from, to] = [form.from, form.to].map((input) => input.valueAsNumber);
  const any = Number.isNaN(from) && Number.isNaN(to);
  const found = [];
  all.games.reward.forEach((reward, game) => {
    if (!chosen.every(([column, choice]) => column[game] === choice)) return;
    // A game without a reward lies in no range; a comparison with an empty bound is false.
    if (any || (reward !== null && !(reward < from) && !(reward > to))) found.push(game);
  });
  return found;
}

function listGames(found, open, asked) {
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  const page = Math.min(pages, Math.max(1, asked));
  const total = all.games.reward.length.toLocaleString("en-US");
  document.querySelector("#count").textContent = `${found.length.toLocaleString("en-US")} of ${total} games`;
  const rows = found.slice((page - 1) * ROWS, page * ROWS).map((game) => row(game, game === open));
  document.querySelector("#rows").replaceChildren(...rows);
  const step = (to, words) => (to < 1 || to > pages ? make("span", {}, words) : make("a", { href: address({ page: to }) }, words));
  document.querySelector("#pages").replaceChildren(
    step(page - 1, "previous"), make("span", {}, `page ${page} of ${pages}`), step(page + 1, "next"),
  );
}

function row(game, open) {
  return make("tr", open ? { "aria-current": "true" } : {},
    make("td", {}, make("a", { href: address({ game }) }, scenario(game).title), make("small", {}, of(game, "category"))),
    make("td", {}, of(game, "buyer"), make("small", {}, of(game, "seller"))),
    make("td", {}, ending(game)),
    make("td", {}, number(of(game, "reward"))),
  );
}

function closeGame() {
  delete shown.dataset.game;
  shown.replaceChildren(make("p", { class: "note" }, "Choose a game."));
}

function openGame(game, found) {
  const file = Math.floor(game / all.size);
  if (!files.has(file)) {
    const script = make("script", { src: `games-${file}.js` });
    script.onload = show;
    script.onerror = () => shown.replaceChildren(make("p", { class: "missing" }, `${script.src} is missing; run the stage report again.`));
    document.head.append(script);
    return;
  }
  const view = document.querySelector(".views :checked")?.className ?? "all";
  shown.replaceChildren(steps(game, found), article(game, files.get(file)[game % all.size], view));
  if (shown.dataset.game === String(game)) return;
  shown.dataset.game = game;
  shown.scrollTop = 0;
  if (matchMedia("(max-width: 60rem)").matches) shown.scrollIntoView();
}

/** Return links to the games before and after one in the list. */
function steps(game, found) {
  const place = found.indexOf(game);
  const step = (to, words) => (place < 0 || to === undefined ? "" : make("a", { href: address({ game: to }) }, words));
  return make("nav", { class: "turn", "aria-label": "Neighbours in the list" },
    step(found[place - 1], "game before"), step(found[place + 1], "game after"));
}

function article(game, [offers, asks, lines], view) {
  const about = scenario(game);
  const turns = of(game, "turns");
  const facts = [
    ["", "Category", of(game, "category")],
    ["", "Description", about.description],
    ["", "List price P", `${money(about.list)} (both know it)`],
    ["only-buyer", "Budget B", `${money(about.budget)} (the buyer alone)`],
    ["only-seller", "Cost C", `${money(about.cost)} (the seller alone)`],
    ["", "Buyer", of(game, "buyer")],
    ["", "Seller", `${of(game, "seller")}, round ${of(game, "round")}`],
    ["", "Ending", `${ending(game)}, after ${turns} turn${turns === 1 ? "" : "s"}`],
    ["neither", "Reward", number(of(game, "reward"))],
  ];
  const views = [["all", "everything"], ["as-buyer", "what the buyer saw"], ["as-seller", "what the seller saw"]];
  return make("article", { class: "game" },
    make("h2", {}, about.title),
    make("dl", {}, ...facts.flatMap(([side, name, value]) => [make("dt", { class: side }, name), make("dd", { class: side }, value)])),
    make("div", { class: "neither" }, chart(game, offers, asks)),
    make("fieldset", { class: "views" }, make("legend", { class: "small" }, "Show"), ...views.flatMap(([name, words]) => [
      make("input", { type: "radio", name: "view", class: name, id: `view-${name}`, ...(name === view ? { checked: "" } : {}) }),
      make("label", { for: `view-${name}` }, words),
    ])),
    make("ol", { class: "lines" }, ...lines.map(line)),
  );
}

function line([thought, talk, action, argument, refused, raw], place) {
  const role = place % 2 ? "seller" : "buyer";
  const paragraph = (kind, text) => (text ? make("p", { class: kind }, text) : "");
  return make("li", { class: role },
    make("p", { class: "who" }, `Turn ${Math.floor(place / 2) + 1}, ${role}`,
      argument ? make("span", { class: "tag neither" }, `argument: ${argument}`) : ""),
    raw === null ? "" : paragraph("thought", "Broke the rules of a message:"),
    paragraph(`only-${role}`, raw),
    paragraph(`thought only-${role}`, thought && `thinks: ${thought}`),
    paragraph("", talk && `“${talk}”`),
    paragraph("act", action),
    ...refused.map(([reason, text]) => paragraph("refused neither", `The regulator refused (${reason}): ${text}`)),
  );
}

/** Draw offers and asks by turn against the list price, the budget and the cost. */
function chart(game, offers, asks) {
  const { list, budget, cost } = scenario(game);
  const levels = [["P", list, "ink", "2 3"], ["B", budget, "blue", "6 3"], ["C", cost, "vermilion", "6 3"]];
  const stated = (amounts) => amounts.map((amount, place) => [place + 1, amount]).filter(([, amount]) => amount !== null);
  const series = [["offers", stated(offers), "blue"], ["asks", stated(asks), "vermilion"]];
  const top = 1.06 * Math.max(list, budget, cost, ...series.flatMap(([, points]) => points.map(([, amount]) => amount)));
  const turns = Math.max(2, offers.length);
  const x = (turn) => 20 + (turn - 1) * 310 / (turns - 1);
  const y = (amount) => 190 - 180 * amount / top;
  const words = [...levels.map(([name, amount]) => `${name} ${money(amount)}`),
    ...series.map(([name, points]) => `${name} ${points.map(([, amount]) => money(amount)).join(", ") || "none"}`), ending(game)];
  const picture = draw("svg", { class: "chart", viewBox: "0 0 430 212", role: "img", "aria-label": words.join("; ") },
    draw("path", { class: "axis", d: "M10 190H340" }),
    ...Array.from({ length: turns }, (_, place) => draw("text", { x: x(place + 1), y: 204, "text-anchor": "middle" }, String(place + 1))));
  let below = Infinity;
  for (const [name, amount, colour, dash] of levels.sort((one, other) => one[1] - other[1])) {
    below = Math.min(y(amount) + 4, below - 12);  // labels of prices that lie close stand one above the other
    picture.append(
      draw("path", { class: "level", d: `M10 ${y(amount)}H340`, "stroke-dasharray": dash, style: `stroke: var(--${colour})` }),
      draw("text", { x: 346, y: below, style: `fill: var(--${colour})` }, `${name} ${money(amount)}`));
  }
  for (const [name, points, colour] of series) {
    const style = `stroke: var(--${colour})`;
    picture.append(draw("path", { class: "moves", d: points.map(([turn, amount], place) => `${place ? "L" : "M"}${x(turn)} ${y(amount)}`).join(""), style }));
    for (const [turn, amount] of points) picture.append(mark(name, x(turn), y(amount), colour, `${money(amount)} in turn ${turn}`));
  }
  if (of(game, "price") !== null) picture.append(mark("deal", x(of(game, "turns")), y(of(game, "price")), "green", ending(game)));
  return make("figure", {}, picture, make("p", { class: "key" }, ...[["● offer", "blue"], ["■ ask", "vermilion"], ["○ deal", "green"]].map(
    ([text, colour]) => make("span", { style: `color: var(--${colour})` }, text))));
}

function mark(kind, x, y, colour, words) {
  const style = kind === "deal" ? `fill: none; stroke: var(--${colour}); stroke-width: 2.5` : `fill: var(--${colour})`;
  const title = draw("title", {}, words);
  if (kind === "asks") return draw("rect", { x: x - 4, y: y - 4, width: 8, height: 8, style }, title);
  return draw("circle", { cx: x, cy: y, r: kind === "deal" ? 8 : 4, style }, title);
}

form.addEventListener("change", () => { location.hash = address({ ...Object.fromEntries(new FormData(form)), page: "" }); });
form.addEventListener("reset", (event) => { event.preventDefault(); location.hash = ""; });
addEventListener("hashchange", () => { if (all) show(); });
