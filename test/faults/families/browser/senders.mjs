/** Host names that may be pointed at 127.0.0.1 (DNS rebinding). */
const hosts = (random, port) => [
  'evil.example',
  `evil.example:${port}`,
  '127.0.0.1.evil.example',
  `127.0.0.1.evil.example:${port}`,
  `localhost.evil.example:${port}`,
  'localhost.evil',
  'evil-localhost',
  'notlocalhost',
  `127.0.0.1@evil.example`,
  `${random.word()}.example:${port}`,
  '10.0.0.1',
  '[2001:db8::1]',
  '169.254.169.254',
];

const origins = (random, port) => [
  'http://evil.example',
  'https://evil.example',
  `http://evil.example:${port}`,
  `http://127.0.0.1.evil.example:${port}`,
  `http://localhost.evil.example`,
  'null',
  'file://',
  'chrome-extension://abcdefghijklmnop',
  `https://${random.word()}.example`,
];

const local = (port) => `Host: 127.0.0.1:${port}`;

/** Requests of other sites: what marks them, and their headers; `also` are other statuses that refuse them. */
export function foreign(random, port) {
  const cases = [
    ...hosts(random, port).map((host) => [
      `the Host '${host}'`,
      { headers: [`Host: ${host}`], ...(host.includes('@') ? { also: [400] } : {}) },
    ]),
    ...origins(random, port).map((origin) => [
      `the Origin '${origin}'`,
      { headers: [local(port), `Origin: ${origin}`] },
    ]),
    ...['cross-site', 'same-site'].map((site) => [
      `Sec-Fetch-Site: ${site}`,
      { headers: [local(port), `Sec-Fetch-Site: ${site}`, 'Sec-Fetch-Mode: no-cors'] },
    ]),
    [
      'a foreign Host and its own Origin',
      {
        headers: [
          `Host: evil.example:${port}`,
          `Origin: http://evil.example:${port}`,
          'Sec-Fetch-Site: same-origin',
        ],
      },
    ],
    ['an empty Host', { headers: ['Host: '], also: [400] }],
    ['no Host, as HTTP/1.0 allows', { headers: [], version: '1.0', also: [400] }],
    ['two Hosts', { headers: [local(port), 'Host: evil.example'], also: [400] }],
    ['a foreign authority in its target', { headers: [local(port)], authority: 'evil.example', also: [400] }],
    [
      'a foreign Origin beside an own one',
      {
        headers: [local(port), `Origin: http://127.0.0.1:${port}`, 'Origin: http://evil.example'],
        also: [400],
      },
    ],
  ];
  return random.shuffle(cases);
}

/** Requests that come from this machine and from no other site. */
export const ours = (port) => [
  ['the Host 127.0.0.1', { headers: [local(port)] }],
  ['the Host 127.0.0.1 without a port', { headers: ['Host: 127.0.0.1'] }],
  ['the Host localhost', { headers: [`Host: localhost:${port}`] }],
  ['the Host LOCALHOST', { headers: [`Host: LOCALHOST:${port}`] }],
  ['the Host [::1]', { headers: [`Host: [::1]:${port}`] }],
  ['the Host 127.0.0.2', { headers: [`Host: 127.0.0.2:${port}`] }],
  [
    'its own Origin',
    { headers: [local(port), `Origin: http://127.0.0.1:${port}`, 'Sec-Fetch-Site: same-origin'] },
  ],
  ['Sec-Fetch-Site: none', { headers: [local(port), 'Sec-Fetch-Site: none'] }],
];
