// The page: drawing, and telling what happens. All cryptography is in client.js, which worker.js runs.

import { hex } from "./client.js";
import { toPicture } from "./digit.js";

const $ = (id) => document.getElementById(id);
const drawing = $("drawing"), pen = drawing.getContext("2d", { willReadFrequently: true });
const PEN = 22; // pixels of 280
const DOING = {
  load: "Loading SEAL…",
  keys: "Making keys in this tab…",
  upload: "Sending the evaluation keys, which cannot decrypt…",
  encrypt: "Encrypting your drawing…",
  evaluate: "The server evaluates the network on noise…",
  decrypt: "Decrypting the scores…",
};

let told, worker, busy = false, spent = {};

const inUnits = (bytes) => (bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
const inTime = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

function say(text, isBusy = false) {
  $("status").textContent = text;
  $("status").classList.toggle("busy", isBusy);
}

function complain(text) {
  $("notice").textContent = text;
  $("notice").hidden = false;
  say("Nothing can be classified here.");
}

// Start

async function start() {
  const answer = await fetch("/plan").catch(() => null);
  if (!answer?.ok) return complain("The service cannot be reached.");
  told = await answer.json();
  const { plan, preparation } = told;
  $("lead").textContent = `A polynomial network of certified degree ${plan.degree} classifies it while it is encrypted. ` +
    "Keys are made in this tab, and the secret one stays here.";
  $("network").textContent = `Certified degree ${plan.degree}, ${plan.depth} multiplications in a row, ring of ${plan.parameters.ring}, ` +
    `modulus of ${plan.parameters.prime_bits.reduce((a, b) => a + b)} bits: 128-bit secure.`;
  showScores(null);
  if (!window.isSecureContext) return complain("Encryption in a browser needs https, or an address on this machine.");
  if (plan.layout === null || plan.input_shape.length !== 3 || plan.input_shape[0] !== 1 || preparation.mean.length !== 1) {
    return complain(`This service takes inputs of shape ${plan.input_shape.join(" × ")}, which cannot be drawn. Use pinets.encrypted.service.RemoteClient.`);
  }
  const installed = await fetch("/seal/seal_throws.js", { method: "GET" });
  if (!installed.ok) return complain(`${(await installed.json()).error}. The Python client works without it.`);
  $("token-form").hidden = !told.needs_token;
  $("classify").disabled = false;
}

/** The worker that encrypts; it makes keys while the user still draws. */
function open() {
  if (!told || $("classify").disabled) return;
  worker ??= startWorker();
  worker.postMessage({ action: "open", told, token: $("token").value.trim() });
}

function startWorker() {
  const started = new Worker("/page/worker.js", { type: "module" });
  started.onmessage = ({ data }) => (data.step === "result" ? finish(data) : progress(data));
  started.onerror = () => finish({ state: "failed", error: "this browser cannot run SEAL: it needs WebAssembly with garbage collection" });
  return started;
}

// Steps

function progress({ step, state, ms, share, bytes, up, down, sample, error }) {
  const row = document.querySelector(`[data-step=${step}]`), value = row.querySelector("b");
  row.className = state;
  if (state === "running") {
    value.textContent = share === undefined ? "…" : `${Math.round(100 * share)} %`;
    if (busy || step === "keys") say(DOING[step], true);
    return;
  }
  if (state === "failed") {
    value.textContent = "failed";
    say(error);
    return;
  }
  const size = bytes ?? up;
  value.textContent = inTime(ms) + (size && step !== "evaluate" ? `, ${inUnits(size)}` : "");
  if (step === "keys") {
    $("key-size").textContent = `(${inUnits(bytes)})`;
    if (!busy) say("Keys are ready. Press classify when you have drawn.");
  }
  if (sample) showCiphertext(sample, bytes);
  if (step === "evaluate") spent = { up, down };
}

function finish({ state, scores, sound, error }) {
  busy = false;
  $("classify").disabled = false;
  if (state === "failed") return say(`That did not work: ${error}.`);
  showScores(scores);
  const names = told.preparation.classes, best = scores.indexOf(Math.max(...scores));
  const name = names[best] ?? best;
  $("traffic").textContent = `${inUnits(spent.up)} of ciphertext to the server, ${inUnits(spent.down)} back.`;
  $("digit").scrollIntoView({ block: "nearest" });
  say(sound ? `It is a ${name}, and the server does not know it.` : `Perhaps a ${name}: but numbers overflowed, so do not trust it.`);
}

function classify() {
  if (busy || $("classify").disabled) return;
  const [, height, width] = told.plan.input_shape;
  const pixels = toPicture(drawing, height, width);
  if (!pixels) return say("Draw something first.");
  busy = true;
  $("classify").disabled = true;
  for (const step of ["encrypt", "evaluate", "decrypt"]) {
    const row = document.querySelector(`[data-step=${step}]`);
    row.className = "";
    row.querySelector("b").textContent = "";
  }
  say("One moment…", true);
  worker ??= startWorker();
  worker.postMessage({ action: "open", told, token: $("token").value.trim() });
  worker.postMessage({ action: "classify", pixels });
}

// What is shown

function showCiphertext(sample, bytes) {
  const canvas = $("ciphertext"), brush = canvas.getContext("2d");
  const image = brush.createImageData(canvas.width, canvas.height);
  for (let at = 0; at < canvas.width * canvas.height; at++) image.data.set([sample[at], sample[at], sample[at], 255], 4 * at);
  brush.putImageData(image, 0, 0);
  $("sent-text").textContent = `${inUnits(bytes)} of ciphertext; here are ${sample.length.toLocaleString("en")} of its bytes`;
  $("sent-hex").textContent = hex(sample.subarray(0, 24)).replace(/../g, "$& ").trim();
}

function showScores(scores) {
  const names = told.preparation.classes, list = $("scores");
  const [low, high] = scores ? [Math.min(...scores), Math.max(...scores)] : [0, 1];
  $("digit").textContent = scores ? names[scores.indexOf(high)] ?? scores.indexOf(high) : "?";
  $("digit").classList.toggle("empty", !scores);
  list.replaceChildren(...Array.from({ length: told.plan.outputs }, (_, at) => {
    const row = document.createElement("li"), bar = document.createElement("i"), value = document.createElement("b");
    row.append(names[at] ?? at, bar, value);
    if (scores) {
      row.className = scores[at] === high ? "best" : "";
      value.textContent = scores[at].toFixed(2);
      requestAnimationFrame(() => (bar.style.width = `${(100 * (scores[at] - low)) / (high - low || 1)}%`));
    }
    return row;
  }));
}

// Drawing

let last = null; // where the pen is while it draws
const cursor = { x: 140, y: 140 }; // of the keyboard

function lineTo(x, y) {
  pen.strokeStyle = "#fff";
  pen.lineWidth = PEN;
  pen.lineCap = pen.lineJoin = "round";
  pen.beginPath();
  pen.moveTo(...(last ?? [x, y]));
  pen.lineTo(x, y);
  pen.stroke();
  last = [x, y];
}

function clear() {
  pen.clearRect(0, 0, drawing.width, drawing.height);
  last = null;
  if (!busy && told) {
    showScores(null);
    say("Draw a digit.");
  }
}

const place = ({ clientX, clientY }) => {
  const box = drawing.getBoundingClientRect();
  return [((clientX - box.left) * drawing.width) / box.width, ((clientY - box.top) * drawing.height) / box.height];
};
drawing.addEventListener("pointerdown", (event) => {
  $("cursor").hidden = true;
  drawing.setPointerCapture(event.pointerId);
  last = null;
  lineTo(...place(event));
  open();
});
drawing.addEventListener("pointermove", (event) => last && event.buttons && lineTo(...place(event)));
drawing.addEventListener("pointerup", () => (last = null));

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
drawing.addEventListener("keydown", (event) => {
  const direction = ARROWS[event.key];
  if (!direction) return;
  event.preventDefault();
  last = event.shiftKey ? [cursor.x, cursor.y] : null;
  cursor.x = Math.min(270, Math.max(10, cursor.x + 10 * direction[0]));
  cursor.y = Math.min(270, Math.max(10, cursor.y + 10 * direction[1]));
  if (event.shiftKey) {
    lineTo(cursor.x, cursor.y);
    open();
  }
  last = null;
  $("cursor").hidden = false;
  Object.assign($("cursor").style, { left: `${cursor.x / 2.8}%`, top: `${cursor.y / 2.8}%` });
  say(`Pen at ${cursor.x / 10}, ${cursor.y / 10} of 28${event.shiftKey ? ", drawing" : ""}.`);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") clear();
  if (event.key === "Enter" && event.target.tagName !== "BUTTON") {
    event.preventDefault();
    classify();
  }
});
$("classify").addEventListener("click", classify);
$("clear").addEventListener("click", clear);
start();
