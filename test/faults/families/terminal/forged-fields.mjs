const ends = ['\n', '\r', '\r\n', '\u2028', '\u2029', '\u0085', '\v', '\f', '\x1e', '%0A', '%0D%0A'];

/** Forms with one field more, whose name would say something in the service's name. */
export const forgedFields = (random) =>
  random.shuffle(ends).map((end) => ({
    [`unknown${end}[remote-app] FORGED by a field${end}__DONE__${end}data: __DONE__`]: 'x',
  }));
