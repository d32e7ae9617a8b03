import { describe, expect, test } from 'vitest';
import { workspace, write } from '../../../packages/volumes/test/written.js';
import { deidentifyDicom } from '../../../src/imaging/deidentify/dicom.js';
import { dicomFile, type Element, element } from '../../support/dicom-files.js';
import { bytesOf, cleaned, parsed, pseudonyms, refusalOf } from './cleaned.js';

const code = (value: string) => [element(0x00080100, 'SH', value), element(0x00080102, 'SH', 'SCT')];

/** What leaves of a file with these elements: what is told of it, and the elements, each with its length or its items. */
async function leftOf(more: readonly Element[], sopClass = '1.2.840.10008.5.1.4.1.1.4') {
  const given = { pixels: new Uint16Array(4), size: [2, 2] as const, position: [0, 0, 0] };
  const all = [element(0x00080016, 'UI', sopClass), ...more];
  const file = await write(await workspace(), 'scan.dcm', dicomFile({ ...given, more: all }));
  const left = await deidentifyDicom(file, 'scan.dcm', { pseudonyms, allowed: new Set() });
  const { elements } = parsed(await bytesOf(file, left));
  const tags = Object.keys(elements);
  return { ...left, tags: tags.map((tag) => tag.slice(1)), elements };
}

test('Each attribute is reported once, as sent or as removed', async () => {
  const { kept, removed, tags, elements } = await leftOf([
    element(0x00080000, 'UL', Buffer.alloc(4)),
    element(0x00080050, 'SH', 'A-77'),
    element(0x00082218, 'SQ', [code('12738006'), code('Meier')]),
    element(0x00091001, 'LO', 'private'),
    element(0x00100010, 'PN', 'Muster'),
    element(0x00100020, 'LO', 'P-1'),
    element(0x00102160, 'SH', 'Group'),
    element(0x00180050, 'DS', '2.5'),
    element(0x00180060, 'DS', ''),
    element(0x00181151, 'IS', 'Ada'),
    element(0x00181020, 'LO', 'syngo'),
    element(0x00400555, 'SQ', [code('12738006')]),
    element(0x4ffe0010, 'LO', 'x'),
    element(0x50000020, 'CS', 'x'),
    element(0x50fe0020, 'CS', 'x'),
    element(0x51000020, 'CS', 'x'),
    element(0x5ffe0020, 'CS', 'x'),
    element(0x60000022, 'LO', 'x'),
    element(0x60fe0022, 'LO', 'x'),
    element(0x61000022, 'LO', 'x'),
  ]);
  expect(kept).toEqual([
    ...['SOPClassUID (0008,0016)', 'Modality (0008,0060)'],
    ...['CodeValue (0008,0100)', 'CodingSchemeDesignator (0008,0102)', 'AnatomicRegionSequence (0008,2218)'],
    ...[
      'SliceThickness (0018,0050)',
      'ImagePositionPatient (0020,0032)',
      'ImageOrientationPatient (0020,0037)',
    ],
    ...['SamplesPerPixel (0028,0002)', 'PhotometricInterpretation (0028,0004)', 'Rows (0028,0010)'],
    ...['Columns (0028,0011)', 'PixelSpacing (0028,0030)', 'BitsAllocated (0028,0100)'],
    ...['BitsStored (0028,0101)', 'HighBit (0028,0102)', 'PixelRepresentation (0028,0103)'],
    ...['RescaleIntercept (0028,1052)', 'RescaleSlope (0028,1053)'],
  ]);
  expect(removed).toEqual([
    ...['SOPInstanceUID (0008,0018)', 'AccessionNumber (0008,0050)', 'CodeValue (0008,0100)'],
    ...['private attributes', 'PatientName (0010,0010)', 'PatientID (0010,0020)', 'EthnicGroup (0010,2160)'],
    ...['SoftwareVersions (0018,1020)', 'XRayTubeCurrent (0018,1151)'],
    ...['StudyInstanceUID (0020,000D)', 'SeriesInstanceUID (0020,000E)'],
    ...['AcquisitionContextSequence (0040,0555)', '(4ffe,0010)', 'curves', '(5100,0020)', '(5ffe,0020)'],
    ...['overlays', '(6100,0022)'],
  ]);
  expect(tags.filter((tag) => !/^(0002|0028)/.test(tag))).toEqual([
    ...['00080016', '00080018', '00080050', '00080060', '00082218', '00100010', '00100020', '00120062'],
    ...['00120063', '00120064', '00180050', '00180060', '00181020', '0020000d', '0020000e', '00200032'],
    ...['00200037', '00400555', '7fe00010'],
  ]);
  expect([elements.x00400555?.items, elements.x00180060?.length]).toEqual([[], 0]);
});

test('A file says by which options of the profile something was kept, if its value was not empty', async () => {
  const statement = async (...more: Element[]) => {
    const { elements } = await leftOf(more, '1.2.840.10008.5.1.4.1.1.128');
    const items = elements.x00120064?.items?.map(({ dataSet }) =>
      ['x00080100', 'x00080102', 'x00080104'].map((tag) => dataSet?.string(tag)),
    );
    return items;
  };
  const basic = ['113100', 'DCM', 'Basic Application Confidentiality Profile'];
  const dates = ['113107', 'DCM', 'Retain Longitudinal Temporal Information Modified Dates Option'];
  const person = ['113108', 'DCM', 'Retain Patient Characteristics Option'];
  const time = element(0x00080030, 'TM', '120000');
  const weight = element(0x00101030, 'DS', '70');
  expect(await statement()).toEqual([basic]);
  expect(await statement(element(0x00080030, 'TM', ''), element(0x00101030, 'DS', ''))).toEqual([basic]);
  expect(await statement(weight)).toEqual([basic, person]);
  expect(await statement(weight, time)).toEqual([basic, dates, person]);
});

describe('missing values of a file', () => {
  const given = { pixels: new Uint16Array(4), size: [2, 2] as const, position: [0, 0, 0] };
  const leftOfFile = async (more: readonly Element[], encoding: Parameters<typeof dicomFile>[1] = {}) => {
    const file = await write(await workspace(), 'scan.dcm', dicomFile({ ...given, more }, encoding));
    return cleaned(file, 'other-image');
  };

  test.each([
    ['MR', '4'],
    ['CT', '2'],
    ['PT', '128'],
    ['NM', '20'],
  ])('A missing class is derived from the modality: %s', async (modality, end) => {
    const more = [element(0x00080016, 'UI', ''), element(0x00080060, 'CS', modality)];
    const bytes = dicomFile({ ...given, more });
    const said = '1.2.840.10008.5.1.4.1.1.4';
    bytes.fill(0, bytes.indexOf(said), bytes.indexOf(said) + said.length);
    const set = parsed(await cleaned(await write(await workspace(), 'scan.dcm', bytes)));
    const sopClass = `1.2.840.10008.5.1.4.1.1.${end}`;
    expect([set.string('x00080016'), set.string('x00020002')]).toEqual([sopClass, sopClass]);
  });

  test('A class that the object lacks is taken from the file meta information', async () => {
    const set = parsed(await leftOfFile([element(0x00080016, 'UI', ''), element(0x00080060, 'CS', 'CT')]));
    expect(set.string('x00080016')).toBe('1.2.840.10008.5.1.4.1.1.4');
  });

  test('A missing identifier is taken from the file meta information, or derived from the content', async () => {
    const instance = async (more: readonly Element[], encoding = {}) => {
      const bytes = await leftOfFile(more, encoding);
      // Once each.
      for (const tag of ['0800160055490', '0800180055490'])
        expect(bytes.toString('hex').split(tag.slice(0, -1)), tag).toHaveLength(2);
      return parsed(bytes).string('x00080018');
    };
    expect(await instance([element(0x00080018, 'UI', '1.2.9')])).toBe(pseudonyms.uid('1.2.9'));
    const without = element(0x00080018, 'UI', '');
    expect(await instance([without])).toBe(pseudonyms.uid('1.2.3.4.5'));
    const bare = { hasPreamble: false, hasMeta: false };
    const [one, other] = [await instance([without], bare), await instance([without], bare)];
    expect(one).toBe(other);
    expect(await instance([without, element(0x00180050, 'DS', '7')], bare)).not.toBe(one);
    expect(one).toMatch(/^2\.25\.\d+$/);
  });

  test('A number of ambiguous type is signed if the pixels are', async () => {
    const vrOf = async (isSigned: boolean) => {
      const more = [element(0x00280120, 'US', [7]), element(0x00280103, 'US', [Number(isSigned)])];
      return parsed(await leftOfFile(more, { isImplicit: true })).elements.x00280120?.vr;
    };
    expect([await vrOf(false), await vrOf(true)]).toEqual(['US', 'SS']);
  });

  test('Times of an object with functional groups are sent, whatever its class, and empty groups are not a fault', async () => {
    const time = [element(0x00080030, 'TM', '120000'), element(0x00080020, 'DA', '20240301')];
    for (const tag of [0x52009229, 0x52009230])
      expect(parsed(await leftOfFile([...time, element(tag, 'SQ', [])])).string('x00080030')).toBe('080000');
    expect(parsed(await leftOfFile(time)).elements.x00080030?.length).toBe(0);
  });

  test('A private transfer syntax is named in the refusal, with what to do', async () => {
    const bytes = dicomFile(given);
    bytes.write('1.2.840.10009.1.2.1', bytes.indexOf('1.2.840.10008.1.2.1'));
    expect(await refusalOf(await write(await workspace(), 'odd.dcm', bytes))).toEqual([
      'unreadable',
      'scan.dcm has a transfer syntax that is not of the standard: convert it, for example with gdcmconv --raw',
    ]);
  });
});
