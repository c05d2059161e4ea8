// The messages that client and server exchange: the counterpart of pinets/encrypted/container.py.
//
// A line of magic, the length of a JSON header, the header, the parts, and a SHA-256 of all of these.

import { concatenate } from "./compact.js";

const MAGIC = new TextEncoder().encode("pinets encrypted\n"), DIGEST = 32, VERSION = 2;

const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

export async function toContainer(kind, plan, keys, parts, facts = {}) {
  const sizes = Object.entries(parts).map(([name, part]) => [name, part.length]);
  const header = new TextEncoder().encode(JSON.stringify({ version: VERSION, kind, plan, keys, facts, parts: sizes }));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(header.length), true);
  const body = concatenate([MAGIC, length, header, ...Object.values(parts)]);
  return concatenate([body, await sha256(body)]);
}

export async function fromContainer(bytes, kind) {
  const body = bytes.subarray(0, -DIGEST), view = new DataView(bytes.buffer, bytes.byteOffset);
  if (MAGIC.some((byte, at) => bytes[at] !== byte)) throw new Error("the answer is not one of pinets");
  const digest = await sha256(body);
  if (bytes.subarray(-DIGEST).some((byte, at) => byte !== digest[at])) throw new Error("the answer was cut or changed");
  const start = MAGIC.length + 8, end = start + Number(view.getBigUint64(MAGIC.length, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(start, end)));
  if (header.kind === "error") throw new Error(header.facts.message);
  if (header.version !== VERSION || header.kind !== kind) throw new Error(`the answer holds ${header.kind}, not ${kind}`);
  let at = end;
  const parts = header.parts.map(([, size]) => bytes.subarray(at, (at += size)));
  return { ...header, parts };
}
