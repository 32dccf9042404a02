/**
 * Follow a thread's feed for as long as the page wants: connect, resume, wait, come back.
 *
 * It keeps the cursor and drops what was seen already. How bytes come is the carrier's matter (`sse.js`, `socket.js`); what
 * records mean is the store's.
 *
 * States: `connecting`, `live`, `waiting` (for the next attempt; `until` in ms of performance.now(), `attempt`, `error`),
 * `offline`, `ended` (the server says that nothing will follow), `closed`.
 */

const FIRST_DELAY = 1_000; // ms
const LONGEST_DELAY = 15_000; // ms
const REFUSED_DELAY = 10_000; // ms; a 404 behind a restarting proxy heals, but slowly
const SILENCE = 45_000; // ms; the server gives a sign of life every 15 s

export class Feed {
  #carry;
  #topic;
  #sink;
  #attempt = 0;
  #retry = FIRST_DELAY;
  #connection = null; // the AbortController of the present attempt
  #wake = null;
  #stopped = false;
  #epoch = "";
  #seq = 0;

  /**
   * `carry`: a carrier. `sink` gets `records(list)`, `gap({ from, to, reason })`, `hello({ head })`, `state(state)`.
   */
  constructor(carry, topic, sink, cursor = "earliest") {
    this.#carry = carry;
    this.#topic = topic;
    this.#sink = sink;
    this.cursor = cursor;
    this.#pin(cursor);
  }

  /** Begin. Returns at once. */
  start() {
    window.addEventListener("online", this.retry);
    window.addEventListener("offline", this.#lost);
    this.#loop();
  }

  /** End for good. */
  stop() {
    this.#stopped = true;
    window.removeEventListener("online", this.retry);
    window.removeEventListener("offline", this.#lost);
    this.#connection?.abort();
    this.#wake?.();
    this.#tell({ name: "closed" });
  }

  /** Make the next attempt now. */
  retry = () => {
    this.#wake?.();
  };

  #lost = () => {
    this.#connection?.abort(new Error("the machine is offline"));
  };

  async #loop() {
    while (!this.#stopped) {
      this.#tell({ name: "connecting", attempt: this.#attempt });
      const error = await this.#connect();
      if (this.#stopped) return;
      if (error?.status === 204) {
        this.#tell({ name: "ended" });
        return;
      }
      if (error?.status === 400) this.#pin((this.cursor = "earliest"));
      this.#attempt += 1;
      const delay = this.#delay(error);
      const name = navigator.onLine ? "waiting" : "offline";
      this.#tell({ name, attempt: this.#attempt, until: performance.now() + delay, error: error?.message ?? "" });
      await this.#pause(delay);
    }
  }

  /** Hold one connection; returns why it ended, or null for a clean end. */
  async #connect() {
    const connection = (this.#connection = new AbortController());
    let watchdog;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => connection.abort(new Error("no sign of life for 45 s")), SILENCE);
    };
    const ifCurrent = (act) => (...values) => connection.signal.aborted || act(...values);
    alive();
    try {
      await this.#carry(this.#topic, this.cursor, {
        alive,
        hello: ifCurrent((data, id) => this.#hello(data, id)),
        records: ifCurrent((records) => this.#records(records)),
        gap: ifCurrent((data, id) => this.#gap(data, id)),
        position: ifCurrent((id) => this.#pin(id)),
        retry: (ms) => (this.#retry = Math.max(200, ms)),
      }, connection.signal);
      return null;
    } catch (error) {
      return connection.signal.aborted ? connection.signal.reason : error;
    } finally {
      clearTimeout(watchdog);
      connection.abort();
    }
  }

  #hello(data, id) {
    this.#attempt = 0;
    const head = typeof data.head === "number" ? data.head : 0;
    // A first hello says where the feed begins; a later one may stand before records that this page has: keep its own place.
    if (id && this.cursor === "earliest") this.#pin(id);
    this.#tell({ name: "live" });
    this.#sink.hello({ head });
  }

  #records(records) {
    const fresh = records.filter(({ envelope }) => {
      const [epoch, seq] = parts(envelope.id);
      if (epoch === this.#epoch && seq <= this.#seq) return false;
      this.#epoch = epoch;
      this.#seq = seq;
      this.cursor = envelope.id;
      return true;
    });
    if (fresh.length) this.#sink.records(fresh);
  }

  #gap(data, id) {
    this.#pin(id);
    this.#sink.gap({ from: data.from, to: data.to, reason: String(data.reason ?? "") });
  }

  #pin(id) {
    if (!id) return;
    this.cursor = id;
    [this.#epoch, this.#seq] = id === "earliest" ? ["", 0] : parts(id);
  }

  #delay(error) {
    if (error?.retryAfter) return error.retryAfter * 1000;
    const refused = (error?.status >= 400 && error.status < 500) || error?.code >= 4500;
    const grown = Math.min(LONGEST_DELAY, this.#retry * 2 ** Math.min(this.#attempt - 1, 6));
    return Math.max(refused ? REFUSED_DELAY : 0, grown) * (0.8 + Math.random() * 0.4);
  }

  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #tell(state) {
    this.#sink.state(state);
  }
}

function parts(id) {
  const dash = id.lastIndexOf("-");
  return [id.slice(0, dash), Number(id.slice(dash + 1))];
}
