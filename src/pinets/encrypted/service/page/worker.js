// Runs the client beside the page, so that the page stays responsive while keys are made.

import { Client } from "./client.js";

let client, keys, keyId, headers;

const say = (step, state, detail = {}) => postMessage({ step, state, ...detail });

/** Do one step, and tell how long it took and what else there is to tell. */
async function timed(step, work) {
  say(step, "running");
  const start = performance.now();
  try {
    const [result, detail] = await work();
    say(step, "done", { ms: performance.now() - start, ...detail });
    return result;
  } catch (error) {
    say(step, "failed", { error: error.message });
    throw error;
  }
}

const TRIES = 4;

/** POST bytes; again after a while if the service is busy. */
async function post(path, body, responseType, progress) {
  for (let tried = 1; ; tried++) {
    const answer = await send(path, body, responseType, progress);
    if (answer.status !== 503 || tried === TRIES) return answer;
    const seconds = Number(answer.getResponseHeader("Retry-After")) || 1;
    await new Promise((resolve) => setTimeout(resolve, 1000 * Math.min(seconds, 20)));
  }
}

/** POST bytes with progress of the upload, which fetch does not tell. */
function send(path, body, responseType, progress = () => {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.responseType = responseType;
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => progress(loaded / total);
    request.onerror = () => reject(new Error("the service cannot be reached"));
    request.onload = () => resolve(request);
    request.send(body);
  });
}

function reasonOf({ status, response }) {
  const text = response instanceof ArrayBuffer ? new TextDecoder().decode(response) : JSON.stringify(response);
  try {
    return JSON.parse(text).error ?? `status ${status}`;
  } catch {
    return `status ${status}`;
  }
}

async function open({ told, token }) {
  headers = { "Content-Type": "application/octet-stream", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  if (client) return;
  client = await timed("load", async () => {
    const { default: load } = await import("/seal/seal_throws.js");
    return [new Client(await load({ locateFile: (name) => `/seal/${name}` }), told), {}];
  });
  keys = await timed("keys", async () => {
    const made = await client.makeKeys();
    return [made, { bytes: made.length }];
  });
}

async function sendKeys() {
  keyId = await timed("upload", async () => {
    const answer = await post("/keys", keys, "json", (share) => say("upload", "running", { share }));
    if (answer.status !== 201) throw new Error(reasonOf(answer));
    return [answer.response.id, { up: keys.length }];
  });
}

async function classify({ pixels }) {
  if (!keyId) await sendKeys();
  const request = await timed("encrypt", async () => {
    const made = await client.encrypt(pixels);
    return [made, { bytes: made.length, sample: made.slice(-9216 - 32, -32) }];
  });
  const answer = await timed("evaluate", async () => {
    let got = await post(`/evaluate/${keyId}`, request, "arraybuffer");
    if (got.status === 404) {
      await sendKeys(); // the service has removed them meanwhile
      got = await post(`/evaluate/${keyId}`, request, "arraybuffer");
    }
    if (got.status !== 200) throw new Error(reasonOf(got));
    return [new Uint8Array(got.response), { up: request.length, down: got.response.byteLength }];
  });
  const result = await timed("decrypt", async () => {
    const decrypted = await client.decrypt(answer);
    return [decrypted, {}];
  });
  say("result", "done", result);
}

const actions = { open, classify };
let queue = Promise.resolve(); // one after the other
onmessage = ({ data }) => {
  queue = queue.then(() => actions[data.action](data)).catch((error) => say("result", "failed", { error: error.message }));
};
