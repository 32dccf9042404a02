// Follow a feed with an npm client, over a link that breaks; print each event's data. Arguments: the client, the address.
import { createEventSource } from "eventsource-client";
import { EventSource } from "eventsource";

const [client, url] = process.argv.slice(-2);
setTimeout(() => process.exit(1), 30_000); // and a reason to live: a client that waits to come back may not keep the process
const said = (data) => {
  console.log(data);
  if (JSON.parse(data).type === "stream.end") setTimeout(() => process.exit(0), 300); // a client that comes back is told 204
};

if (client === "eventsource") {
  const source = new EventSource(url);
  source.onmessage = ({ data }) => said(data);
  source.onerror = ({ code }) => {
    if (source.readyState === source.CLOSED) console.log(JSON.stringify({ closed: code ?? 0 }));
  };
} else {
  createEventSource({ url, onMessage: ({ data }) => said(data) });
}
