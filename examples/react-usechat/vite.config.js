import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The page and its agents have one origin: what begins with /v1 goes to the server.
export default defineConfig({
  base: "./",
  plugins: [react()],
  server: { proxy: { "/v1": process.env.AGENTKIT_URL ?? "http://127.0.0.1:8000" } },
});
