/**
 * Identifying attributes by what they identify. The Basic Profile of PS3.15 (Table E.1-1) removes or replaces all of them.
 * Attributes that identify only sometimes, such as descriptions and dates, are not included.
 */
const table = `
    the patient:
    00100010 PatientName
    00100020 PatientID
    00084000 IdentifyingComments
    00100021 IssuerOfPatientID
    00100030 PatientBirthDate
    00100033 PatientBirthDateInAlternativeCalendar
    00101000 OtherPatientIDs
    00101001 OtherPatientNames
    00101002 OtherPatientIDsSequence
    00101005 PatientBirthName
    00101040 PatientAddress
    00101050 InsurancePlanIdentification
    00101060 PatientMotherBirthName
    00101090 MedicalRecordLocator
    00101100 ReferencedPatientPhotoSequence
    00102154 PatientTelephoneNumbers
    00102155 PatientTelecomInformation
    00102180 Occupation
    001021b0 AdditionalPatientHistory
    00102297 ResponsiblePerson
    00102299 ResponsibleOrganization
    00104000 PatientComments
    00380300 CurrentPatientLocation
    00380400 PatientInstitutionResidence
    00384000 VisitComments
    numbers of records and orders:
    00080050 AccessionNumber
    00380010 AdmissionID
    00380060 ServiceEpisodeID
    0040050a SpecimenAccessionNumber
    00401001 RequestedProcedureID
    00402016 PlacerOrderNumberImagingServiceRequest
    00402017 FillerOrderNumberImagingServiceRequest
    other people:
    00080090 ReferringPhysicianName
    00080092 ReferringPhysicianAddress
    00080094 ReferringPhysicianTelephoneNumbers
    00080096 ReferringPhysicianIdentificationSequence
    0008009c ConsultingPhysicianName
    0008009d ConsultingPhysicianIdentificationSequence
    00081048 PhysiciansOfRecord
    00081049 PhysiciansOfRecordIdentificationSequence
    00081050 PerformingPhysicianName
    00081052 PerformingPhysicianIdentificationSequence
    00081060 NameOfPhysiciansReadingStudy
    00081062 PhysiciansReadingStudyIdentificationSequence
    00081070 OperatorsName
    00081072 OperatorIdentificationSequence
    0016004d CameraOwnerName
    00321032 RequestingPhysician
    00400006 ScheduledPerformingPhysicianName
    0040000b ScheduledPerformingPhysicianIdentificationSequence
    00401010 NamesOfIntendedRecipientsOfResults
    00401011 IntendedRecipientsOfResultsIdentificationSequence
    00401101 PersonIdentificationCodeSequence
    00401102 PersonAddress
    00401103 PersonTelephoneNumbers
    00401104 PersonTelecomInformation
    00402008 OrderEnteredBy
    00402010 OrderCallbackPhoneNumber
    00402011 OrderCallbackTelecomInformation
    00404037 HumanPerformerName
    0040a075 VerifyingObserverName
    0040a123 PersonName
    0040a307 CurrentObserverTrial
    0040a352 VerbalSourceTrial
    0040a353 AddressTrial
    0040a354 TelephoneNumberTrial
    00700084 ContentCreatorName
    00700086 ContentCreatorIdentificationCodeSequence
    00880910 TopicAuthor
    300600a6 ROIInterpreter
    300e0008 ReviewerName
    40080102 InterpretationRecorder
    4008010a InterpretationTranscriber
    4008010c InterpretationAuthor
    40080114 PhysicianApprovingInterpretation
    40080119 DistributionName
    4008011a DistributionAddress
    the place and its devices:
    00080080 InstitutionName
    00080081 InstitutionAddress
    00080082 InstitutionCodeSequence
    00081010 StationName
    00081040 InstitutionalDepartmentName
    00160072 GPSLatitude
    00160074 GPSLongitude
    00181000 DeviceSerialNumber
    00181009 UniqueDeviceIdentifier
    0018100a UDISequence
    00321033 RequestingService
    00404036 HumanPerformerOrganization
    0040a027 VerifyingOrganization
    what was there before: earlier values, and certificates with the name of the signer
    04000561 OriginalAttributesSequence
    fffafffa DigitalSignaturesSequence`;

/** The keywords of identifying attributes, by tag. */
export const identifying: ReadonlyMap<number, string> = new Map(
  [...table.matchAll(/([0-9a-f]{8}) (\w+)/g)].map(([, tag = '', keyword = '']) => [
    Number.parseInt(tag, 16),
    keyword,
  ]),
);

/**
 * Whether an attribute is the patient's name or ID, which may be a pseudonym if the file says that the patient's identity was
 * removed.
 */
export const mayBeCode = (tag: number): boolean => tag === 0x0010_0010 || tag === 0x0010_0020;
