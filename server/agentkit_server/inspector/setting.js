/**
 * Small settings that stay on this machine: the theme, the panel, single-key shortcuts.
 */

const PREFIX = "agentkit.";
const THEMES = ["auto", "light", "dark"];

/** Return a setting, or `otherwise`. Storage may be forbidden: then nothing is kept and nothing breaks. */
export function recall(name, otherwise) {
	try {
		return localStorage.getItem(PREFIX + name) ?? otherwise;
	} catch {
		return otherwise;
	}
}

/** Keep a setting. */
export function remember(name, value) {
	try {
		localStorage.setItem(PREFIX + name, value);
	} catch {
		// As above.
	}
}

/** Return the theme's name after putting it on: `auto` follows the system. */
export function applyTheme(theme = recall("theme", "auto")) {
	const known = THEMES.includes(theme) ? theme : "auto";
	if (known === "auto") delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = known;
	return known;
}

/** Go to the next theme and return its name. */
export function nextTheme() {
	const theme = THEMES[(THEMES.indexOf(applyTheme()) + 1) % THEMES.length];
	remember("theme", theme);
	return applyTheme(theme);
}
