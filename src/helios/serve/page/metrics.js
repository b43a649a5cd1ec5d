/**
 * Prometheus text as numbers: values by name, and quantiles of histograms.
 */

const LINE = /^flare_(\w+?)(?:_total)?(?:\{(?:le="([^"]+)")?[^}]*\})? (\S+)$/gm;

export class Counts {
  #values = new Map();
  #buckets = new Map();

  constructor(text) {
    for (const [, name, bound, value] of text.matchAll(LINE)) {
      if (bound === undefined) this.#values.set(name, Number(value));
      else {
        const found = this.#buckets.get(name) ?? [];
        found.push([bound === "+Inf" ? Infinity : Number(bound), Number(value)]);
        this.#buckets.set(name, found);
      }
    }
  }

  /** A value; zero where the server has none. */
  of(name) {
    return this.#values.get(name) ?? 0;
  }

  /** A quantile of a histogram, straight lines drawn inside its buckets; null if it is empty. */
  quantile(name, part) {
    const buckets = this.#buckets.get(`${name}_bucket`) ?? [];
    const wanted = part * (buckets.at(-1)?.[1] ?? 0);
    if (wanted === 0) return null;
    let [low, before] = [0, 0];
    for (const [bound, count] of buckets) {
      if (count >= wanted) {
        if (bound === Infinity) return low;
        return low + ((bound - low) * (wanted - before)) / (count - before);
      }
      [low, before] = [bound, count];
    }
    return low;
  }
}
