// SEAL's ciphertexts and keys in as few bytes as they need: the counterpart of pinets/encrypted/compact.py.
//
// SEAL saves an object as a header (magic, version, size) and its members; members have headers too. The compact form
// drops them all, and a coefficient takes the bits of its prime.

const MAGIC = 0xa15e, HEADER = 16, MAJOR = 4;
const MEMBERS = 73; // of a ciphertext: parameters 32, is transformed 1, polynomials 8, ring 8, primes 8, scale 8, correction 8
const COUNT = 8, SEED = 65; // generator 1, seed 64
const TRANSFORMED = HEADER + 32, SCALE = HEADER + 57, DATA = HEADER + MEMBERS + HEADER + COUNT;

const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const number = (view, at) => Number(view.getBigUint64(at, true));

function skipHeader(view, at) {
  const [magic, length, major, mode] = [view.getUint16(at, true), view.getUint8(at + 2), view.getUint8(at + 3), view.getUint8(at + 5)];
  if (magic !== MAGIC || length !== HEADER || major !== MAJOR || mode !== 0 || number(view, at + 8) > view.byteLength - at) {
    throw new Error("this is not in the format of SEAL 4");
  }
  return at + HEADER;
}

/** The bits that a coefficient takes: a shift by up to seven must not push it out of eight bytes. */
const widthOf = (bits) => (bits <= 57 ? bits : bits + (bits % 2));

export class CompactForm {
  constructor(ring, primeBits) {
    this.ring = ring;
    this.widths = primeBits.map(widthOf);
  }

  /** A ciphertext that SEAL saved uncompressed. */
  packCiphertext(native) {
    const { view, seed, primes, polynomials, data } = this.#read(native, 0);
    const head = new Uint8Array(10);
    viewOf(head).setFloat64(0, view.getFloat64(SCALE, true), true);
    head.set([primes, seed.length ? 1 : 0], 8);
    return concatenate([head, seed, this.#pack(view, data, polynomials, primes)]);
  }

  /** Fill a ciphertext that SEAL saved, of the right number of primes, with the values of a compact one. */
  unpackCiphertext(compact, templateFor) {
    const view = viewOf(compact), primes = view.getUint8(8);
    if (view.getUint8(9)) throw new Error("answers have no seed");
    const native = templateFor(primes), out = viewOf(native);
    const { data } = this.#read(native, 0, { transformed: false });
    out.setUint8(TRANSFORMED, 1);
    out.setFloat64(SCALE, view.getFloat64(0, true), true);
    const bits = new BitReader(compact, 10);
    let at = data;
    for (let polynomial = 0; polynomial < 2; polynomial++) {
      for (const width of this.widths.slice(0, primes)) {
        for (let i = 0; i < this.ring; i++, at += 8) {
          out.setUint32(at, bits.take(Math.min(width, 32)), true);
          out.setUint32(at + 4, width > 32 ? bits.take(width - 32) : 0, true);
        }
      }
    }
    if (at !== native.length || bits.at !== compact.length) throw new Error("the answer has another size than it should");
    return native;
  }

  /** Keys that SEAL saved uncompressed. */
  packKeys(native) {
    const view = viewOf(native), count = number(view, skipHeader(view, 0) + 32);
    const indices = [], pieces = [];
    let at = HEADER + 32 + COUNT;
    for (let index = 0; index < count; index++) {
      const digits = number(view, at);
      at += COUNT;
      if (digits) indices.push(index);
      for (let digit = 0; digit < digits; digit++) {
        const { seed, primes, polynomials, data, end } = this.#read(native, at);
        pieces.push(seed, this.#pack(view, data, polynomials, primes));
        at = end;
      }
    }
    return concatenate([new Uint8Array(Uint32Array.of(indices.length, ...indices).buffer), ...pieces]);
  }

  /** Where the parts of a saved ciphertext are. */
  #read(native, start, { transformed = true } = {}) {
    const view = viewOf(native), members = skipHeader(view, start);
    const [size, ring, primes] = [33, 41, 49].map((offset) => number(view, members + offset));
    const data = skipHeader(view, members + MEMBERS) + COUNT;
    const polynomials = number(view, data - COUNT) / (primes * ring);
    if (size !== 2 || ring !== this.ring || (transformed && !view.getUint8(members + 32)) || ![1, 2].includes(polynomials)) {
      throw new Error("SEAL saved another ciphertext than expected");
    }
    let end = data + 8 * polynomials * primes * ring, seed = new Uint8Array();
    if (polynomials === 1) {
      seed = native.slice(skipHeader(view, end), end + HEADER + SEED);
      end += HEADER + SEED;
    }
    return { view, seed, primes, polynomials, data, end };
  }

  #pack(view, at, polynomials, primes) {
    const widths = this.widths.slice(0, primes);
    const bits = new BitWriter((polynomials * this.ring * widths.reduce((a, b) => a + b)) / 8);
    for (let polynomial = 0; polynomial < polynomials; polynomial++) {
      for (const width of widths) {
        for (let i = 0; i < this.ring; i++, at += 8) {
          bits.put(view.getUint32(at, true), Math.min(width, 32));
          if (width > 32) bits.put(view.getUint32(at + 4, true), width - 32);
        }
      }
    }
    return bits.bytes;
  }
}

/** Writes numbers of some bits one after the other, the lowest bit first. */
class BitWriter {
  constructor(size) {
    this.bytes = new Uint8Array(size);
    this.at = this.filled = this.rest = 0;
  }

  put(value, bits) {
    this.rest += value * 2 ** this.filled; // below 2^40, exact in a double
    this.filled += bits;
    while (this.filled >= 8) {
      this.bytes[this.at++] = this.rest % 256;
      this.rest = Math.floor(this.rest / 256);
      this.filled -= 8;
    }
  }
}

class BitReader {
  constructor(bytes, at) {
    Object.assign(this, { bytes, at, filled: 0, rest: 0 });
  }

  take(bits) {
    while (this.filled < bits) {
      this.rest += this.bytes[this.at++] * 2 ** this.filled;
      this.filled += 8;
    }
    const value = this.rest % 2 ** bits;
    this.rest = Math.floor(this.rest / 2 ** bits);
    this.filled -= bits;
    return value;
  }
}

export function concatenate(pieces) {
  const out = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}
