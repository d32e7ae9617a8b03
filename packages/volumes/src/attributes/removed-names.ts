import { identifying } from '../identity/identifying.js';
import { tagText } from './table.js';

/** Further removed attributes, with the names that users know. */
const others = `
  00081030 StudyDescription
  0008103e SeriesDescription
  00081080 AdmittingDiagnosesDescription
  00100032 PatientBirthTime
  00100040 PatientSex
  00101010 PatientAge
  00102000 MedicalAlerts
  00102110 Allergies
  00102160 EthnicGroup
  001021f0 PatientReligiousPreference
  00181002 DeviceUID
  00181030 ProtocolName
  00200010 StudyID
  00204000 ImageComments
  00321060 RequestedProcedureDescription
  00324000 StudyComments
  00400243 PerformedLocation
  00400253 PerformedProcedureStepID
  00400254 PerformedProcedureStepDescription
  00400275 RequestAttributesSequence`;

/** The keywords of removed attributes, by tags of eight hexadecimal digits. */
const keywords: ReadonlyMap<string, string> = new Map([
  ...[...identifying].map(([tag, keyword]) => [tag.toString(16).padStart(8, '0'), keyword] as const),
  ...[...others.matchAll(/([0-9a-f]{8}) (\w+)/g)].map(
    ([, tag = '', keyword = '']) => [tag, keyword] as const,
  ),
]);

/** The tags of attributes that must never leave unchanged. */
export const identifyingTags: readonly string[] = [...keywords.keys()];

/** The name of a removed attribute: `StudyDescription (0008,1030)`. */
export function nameOfRemoved(tag: string): string {
  const place = tagText(tag);
  const keyword = keywords.get(tag);
  return keyword === undefined ? place : `${keyword} ${place}`;
}
