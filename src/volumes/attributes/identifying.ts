/**
 * Attributes that say who a person is, or lead to them: what a server looks for in files that should have none, and what a
 * person reads by name where it was left out. PatientName and PatientID may hold a pseudonym.
 */
export const identifyingAttributes: ReadonlyMap<string, string> = new Map(
  `00080050 AccessionNumber
  00080080 InstitutionName
  00080081 InstitutionAddress
  00080090 ReferringPhysicianName
  00080092 ReferringPhysicianAddress
  00080094 ReferringPhysicianTelephoneNumbers
  00081010 StationName
  00081030 StudyDescription
  0008103e SeriesDescription
  00081040 InstitutionalDepartmentName
  00081048 PhysiciansOfRecord
  00081050 PerformingPhysicianName
  00081060 NameOfPhysiciansReadingStudy
  00081070 OperatorsName
  00081080 AdmittingDiagnosesDescription
  00100010 PatientName
  00100020 PatientID
  00100021 IssuerOfPatientID
  00100030 PatientBirthDate
  00100032 PatientBirthTime
  00100040 PatientSex
  00101000 OtherPatientIDs
  00101001 OtherPatientNames
  00101002 OtherPatientIDsSequence
  00101005 PatientBirthName
  00101010 PatientAge
  00101040 PatientAddress
  00101060 PatientMotherBirthName
  00102000 MedicalAlerts
  00102110 Allergies
  00102154 PatientTelephoneNumbers
  00102160 EthnicGroup
  00102180 Occupation
  001021b0 AdditionalPatientHistory
  001021f0 PatientReligiousPreference
  00104000 PatientComments
  00181000 DeviceSerialNumber
  00181002 DeviceUID
  00181030 ProtocolName
  00200010 StudyID
  00204000 ImageComments
  00321032 RequestingPhysician
  00321060 RequestedProcedureDescription
  00324000 StudyComments
  00380010 AdmissionID
  00380300 CurrentPatientLocation
  00380400 PatientInstitutionResidence
  00400006 ScheduledPerformingPhysicianName
  00400243 PerformedLocation
  00400253 PerformedProcedureStepID
  00400254 PerformedProcedureStepDescription
  00400275 RequestAttributesSequence
  00401001 RequestedProcedureID
  0040a123 PersonName`
    .split('\n')
    .map((line): [string, string] => {
      const [tag = '', keyword = ''] = line.trim().split(' ');
      return [tag, `${keyword} (${tag.slice(0, 4)},${tag.slice(4).toUpperCase()})`];
    }),
);
