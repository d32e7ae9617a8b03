/** The target of a row: its words in the table, and how it is checked. */

/** At most so many times the yardstick. */
export const times = (factor) => ({
  text: `${factor} x`,
  holds: ({ figure, yardstick }) => figure <= factor * yardstick,
});

/** At most so much more than the yardstick. */
export const plus = (amount, unit) => ({
  text: `+ ${amount} ${unit}`,
  holds: ({ figure, yardstick }) => figure <= yardstick + amount,
});

/** At most so much; there is no yardstick. */
export const atMost = (amount, unit) => ({
  text: `${amount} ${unit}`,
  holds: ({ figure }) => figure <= amount,
});

/** A row that is measured for information alone. */
export const nothing = { text: '-', holds: () => true };
