/**
 * Make elements and icons.
 *
 * What comes from a feed reaches the page through text nodes and plain attributes only. There is no innerHTML in this
 * page, no style attribute and no inline script: the policy of index.html would refuse them.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Paths of 16 × 16 icons, drawn with a stroke. Emoji would be empty boxes on machines without their font. */
const ICONS = {
	brand: "M8 1.5v2.6M8 11.9v2.6M1.5 8h2.6M11.9 8h2.6M3.4 3.4l1.9 1.9M10.7 10.7l1.9 1.9M3.4 12.6l1.9-1.9M10.7 5.3l1.9-1.9",
	chevron: "M6 3.5 10.5 8 6 12.5",
	lock: "M3.5 7.5h9v6h-9zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
	tool: "M9.9 2.2a3.6 3.6 0 0 0-4.5 4.6L2 10.2 2 14h3.8l3.4-3.4a3.6 3.6 0 0 0 4.6-4.5l-2.3 2.3-2.6-.7-.7-2.6z",
	send: "M8 13.5v-11M3.5 7 8 2.5 12.5 7",
	stop: "M4.5 4.5h7v7h-7z",
	menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
	panel: "M2.5 3h11v10h-11zM9.5 3v10",
	plus: "M8 3v10M3 8h10",
	close: "M4 4l8 8M12 4l-8 8",
	copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
	check: "M3 8.5 6.5 12 13 4.5",
	download: "M8 2.5v8M4.5 7 8 10.5 11.5 7M3 13.5h10",
	upload: "M8 10.5v-8M4.5 6 8 2.5 11.5 6M3 13.5h10",
	link: "M6.7 9.3a2.6 2.6 0 0 0 3.7 0l2.3-2.3A2.6 2.6 0 0 0 9 3.3l-.9.9M9.3 6.7a2.6 2.6 0 0 0-3.7 0L3.3 9A2.6 2.6 0 0 0 7 12.7l.9-.9",
	theme: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
	help: "M5.8 6a2.2 2.2 0 1 1 3.3 1.9c-.7.4-1.1.9-1.1 1.7M8 12.2v.3",
	alert: "M8 2.5 14 13.2H2zM8 6.5v3M8 11.3v.3",
	first: "M12 3.5 7 8l5 4.5zM4.5 3.5v9",
	last: "M4 3.5 9 8l-5 4.5zM11.5 3.5v9",
	play: "M5 3.2 12.5 8 5 12.8z",
	pause: "M5.5 3.5v9M10.5 3.5v9",
	back: "M10.5 3.5 6 8l4.5 4.5",
};

/**
 * Return a new element.
 *
 * `properties`: `on` is a table of listeners; true sets an empty attribute, false, null and undefined leave it out; the
 * rest become attributes. `children`: nodes, or strings that become text nodes; null and false are left out.
 */
export function element(tag, properties = {}, ...children) {
	const node = document.createElement(tag);
	for (const [name, value] of Object.entries(properties)) {
		if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
		else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
	}
	node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
	return node;
}

/** Return an icon that says nothing to a screen reader: the words beside it do. */
export function icon(name) {
	const svg = document.createElementNS(SVG, "svg");
	svg.setAttribute("viewBox", "0 0 16 16");
	svg.setAttribute("class", `icon icon-${name}`);
	svg.setAttribute("aria-hidden", "true");
	const path = document.createElementNS(SVG, "path");
	path.setAttribute("d", ICONS[name]);
	svg.append(path);
	return svg;
}

/** Return a quiet button: an icon with its name for everybody who cannot see it, or with visible words. */
export function button(name, label, listener, { words = false, ...properties } = {}) {
	const named = words ? {} : { "aria-label": label, title: label };
	const type = { type: "button", class: words ? "quiet words" : "quiet" };
	return element("button", { ...type, ...named, ...properties, on: { click: listener } }, icon(name), words && label);
}

/** Return a titled box of preformatted text that can be copied: `{ root, head, title, code }`. */
export function codeBox(name, what = name.toLowerCase()) {
	const code = element("code");
	const title = element("span", {}, name);
	const press = button("copy", `Copy: ${what}`, () => copy(code.textContent, press));
	const head = element("div", { class: "code-head" }, title, press);
	return { root: element("div", { class: "code" }, head, element("pre", { tabindex: "0" }, code)), head, title, code };
}

/** Tell whether a scrolled element stands at its end, or `near` px above it. */
export function atEnd({ scrollTop, scrollHeight, clientHeight }, near) {
	return scrollHeight - scrollTop - clientHeight < near;
}

/** Replace the text of a node only where it differs, so that nothing is laid out or announced for nothing. */
export function setText(node, text) {
	if (node.textContent !== text) node.textContent = text;
}

export function flag(node, name, on) {
	if (node.hasAttribute(name) !== Boolean(on)) node.toggleAttribute(name, Boolean(on));
}

/** Copy text, and say so on the button for a moment. Pages without a secure origin have no clipboard API. */
export async function copy(text, pressed) {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		const area = element("textarea", { class: "unseen", "aria-hidden": "true" });
		area.value = text;
		document.body.append(area);
		area.select();
		document.execCommand("copy");
		area.remove();
		pressed.focus();
	}
	const old = pressed.querySelector("svg");
	old.replaceWith(icon("check"));
	pressed.dataset.done = "";
	setTimeout(() => {
		pressed.querySelector("svg").replaceWith(old);
		delete pressed.dataset.done;
	}, 1500);
}
