import { createRoot } from "react-dom/client";
import { Chat } from "./chat.jsx";

// ?agent=tools chooses the agent; #<id> is the chat, so that a reload or a second tab comes back to it.
const agent = new URLSearchParams(location.search).get("agent") ?? "scripted";
const id = location.hash.slice(1) || crypto.randomUUID();
location.hash = id;
const api = `/v1/ai-sdk/${agent}`;
const response = await fetch(`${api}/${id}`);
const { messages } = response.ok ? await response.json() : { messages: [] };

createRoot(document.getElementById("root")).render(<Chat api={api} id={id} messages={messages} />);
