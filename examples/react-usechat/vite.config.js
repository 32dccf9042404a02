import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The page and its agents have one origin: what begins with /v1 goes to the server, under the page's own name, so that the server
// knows the request for one of its own page's (it refuses those of others).
const target = process.env.AGENTKIT_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  base: "./",
  plugins: [react()],
  server: { proxy: { "/v1": { target, changeOrigin: false } } },
});
