// The client: makes keys, encrypts a picture, decrypts the scores. The secret key never leaves this object.

import { CompactForm } from "./compact.js";
import { fromContainer, toContainer } from "./container.js";

export class Client {
  #keys; // SEAL's generator, encryptor and decryptor, which hold the secret key

  /** A client for what the service tells at /plan, with SEAL as WebAssembly. */
  constructor(seal, { plan, identity, preparation }) {
    Object.assign(this, { seal, plan, identity, preparation });
    const { ring, prime_bits: primes } = plan.parameters;
    const settings = new seal.EncryptionParameters(seal.SchemeType.ckks);
    settings.setPolyModulusDegree(ring);
    settings.setCoeffModulus(seal.CoeffModulus.Create(ring, Int32Array.from(primes)));
    this.context = new seal.SEALContext(settings, true, seal.SecLevelType.tc128);
    if (!this.context.parametersSet()) throw new Error("SEAL refuses the parameters of this service: are they secure?");
    this.encoder = new seal.CKKSEncoder(this.context);
    this.compact = new CompactForm(ring, primes);
  }

  /** Make all keys; returns the evaluation keys for the server, which can multiply and rotate but not decrypt. */
  async makeKeys() {
    const { seal, context } = this, none = seal.ComprModeType.none;
    const generator = new seal.KeyGenerator(context), secret = generator.secretKey();
    const encryptor = new seal.Encryptor(context, generator.createPublicKey(), secret);
    this.#keys = { secret, encryptor, decryptor: new seal.Decryptor(context, secret) };
    this.keysIdentity = hex(crypto.getRandomValues(new Uint8Array(16))); // random, so it tells nothing about the keys
    const relinearisation = this.compact.packKeys(generator.createRelinKeysSerializable().saveToArray(none));
    const steps = Int32Array.from(this.plan.rotations);
    const rotation = steps.length
      ? this.compact.packKeys(generator.createGaloisKeysSerializableWithSteps(steps).saveToArray(none))
      : new Uint8Array();
    return toContainer("evaluation keys", this.identity, this.keysIdentity, { relinearisation, rotation });
  }

  /** Encrypt a picture, given as numbers from 0 to 1. */
  async encrypt(pixels) {
    const { seal, plan, preparation } = this, none = seal.ComprModeType.none;
    const [mean, std] = [preparation.mean[0], preparation.std[0]];
    const slots = new Float64Array(plan.parameters.ring / 2);
    for (let copy = 0; copy < plan.layout.copies; copy++) {
      pixels.forEach((pixel, at) => (slots[copy * plan.layout.period + at] = (pixel - mean) / std));
    }
    const plaintext = new seal.Plaintext();
    this.encoder.encode(slots, 2 ** plan.parameters.scale_bits, plaintext);
    const ciphertext = this.#keys.encryptor.encryptSymmetricSerializable(plaintext).saveToArray(none);
    const parts = { 0: this.compact.packCiphertext(ciphertext) };
    return toContainer("inputs", this.identity, this.keysIdentity, parts, { count: 1 });
  }

  /** Decrypt the server's answer: the scores, and whether they match their check values. */
  async decrypt(answer) {
    const { seal, plan } = this;
    const container = await fromContainer(answer, "outputs");
    if (container.keys !== this.keysIdentity) throw new Error("the answer belongs to other keys");
    const ciphertext = new seal.Ciphertext(), plaintext = new seal.Plaintext();
    const native = this.compact.unpackCiphertext(container.parts[0], (primes) => this.#emptyCiphertext(primes));
    ciphertext.loadFromArray(this.context, native);
    this.#keys.decryptor.decrypt(ciphertext, plaintext);
    const slots = this.encoder.decodeFloat64(plaintext);
    const rows = plan.outputs + plan.check_weights.length, period = 2 ** Math.ceil(Math.log2(rows));
    // the outputs repeat through the slots; the first repetition is the noisiest
    const values = Array.from({ length: rows }, (_, row) => {
      let sum = 0;
      for (let at = period + row; at < slots.length; at += period) sum += slots[at];
      return sum / (slots.length / period - 1);
    });
    const scores = values.slice(0, plan.outputs);
    const sound = plan.check_weights.every((weights, check) => {
      const expected = weights.reduce((sum, weight, at) => sum + weight * scores[at], 0);
      return Math.abs(expected - values[plan.outputs + check]) <= plan.check_tolerance;
    });
    return { scores, sound };
  }

  /** A ciphertext with two empty polynomials and a number of primes, as SEAL saves it. */
  #emptyCiphertext(primes) {
    let level = this.context.lastContextData();
    while (level.chainIndex() < primes - 1) level = level.prevContextData();
    const empty = new this.seal.Ciphertext(this.context, level.parmsId(), 2);
    empty.resize(2);
    return empty.saveToArray(this.seal.ComprModeType.none);
  }
}

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
