/** Attributes whose value may be a code, where the file says that the patient's identity was removed. */
const codes: Readonly<Record<number, string>> = {
  1048592: 'PatientName',
  1048608: 'PatientID',
};

/**
 * The attributes that say who somebody is, by what they tell. The Basic Profile of PS3.15 (Table E.1-1) removes or replaces
 * all of them. Those that say so only sometimes, such as descriptions and dates, are not among them.
 */
const byReason: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  'the patient': {
    540672: 'IdentifyingComments',
    1048609: 'IssuerOfPatientID',
    1048624: 'PatientBirthDate',
    1048627: 'PatientBirthDateInAlternativeCalendar',
    1052672: 'OtherPatientIDs',
    1052673: 'OtherPatientNames',
    1052674: 'OtherPatientIDsSequence',
    1052677: 'PatientBirthName',
    1052736: 'PatientAddress',
    1052752: 'InsurancePlanIdentification',
    1052768: 'PatientMotherBirthName',
    1052816: 'MedicalRecordLocator',
    1052928: 'ReferencedPatientPhotoSequence',
    1057108: 'PatientTelephoneNumbers',
    1057109: 'PatientTelecomInformation',
    1057152: 'Occupation',
    1057200: 'AdditionalPatientHistory',
    1057431: 'ResponsiblePerson',
    1057433: 'ResponsibleOrganization',
    1064960: 'PatientComments',
    3670784: 'CurrentPatientLocation',
    3671040: 'PatientInstitutionResidence',
    3686400: 'VisitComments',
  },
  'numbers of records and orders': {
    524368: 'AccessionNumber',
    3670032: 'AdmissionID',
    3670112: 'ServiceEpisodeID',
    4195594: 'SpecimenAccessionNumber',
    4198401: 'RequestedProcedureID',
    4202518: 'PlacerOrderNumberImagingServiceRequest',
    4202519: 'FillerOrderNumberImagingServiceRequest',
  },
  'other people': {
    524432: 'ReferringPhysicianName',
    524434: 'ReferringPhysicianAddress',
    524436: 'ReferringPhysicianTelephoneNumbers',
    524438: 'ReferringPhysicianIdentificationSequence',
    524444: 'ConsultingPhysicianName',
    524445: 'ConsultingPhysicianIdentificationSequence',
    528456: 'PhysiciansOfRecord',
    528457: 'PhysiciansOfRecordIdentificationSequence',
    528464: 'PerformingPhysicianName',
    528466: 'PerformingPhysicianIdentificationSequence',
    528480: 'NameOfPhysiciansReadingStudy',
    528482: 'PhysiciansReadingStudyIdentificationSequence',
    528496: 'OperatorsName',
    528498: 'OperatorIdentificationSequence',
    1441869: 'CameraOwnerName',
    3280946: 'RequestingPhysician',
    4194310: 'ScheduledPerformingPhysicianName',
    4194315: 'ScheduledPerformingPhysicianIdentificationSequence',
    4198416: 'NamesOfIntendedRecipientsOfResults',
    4198417: 'IntendedRecipientsOfResultsIdentificationSequence',
    4198657: 'PersonIdentificationCodeSequence',
    4198658: 'PersonAddress',
    4198659: 'PersonTelephoneNumbers',
    4198660: 'PersonTelecomInformation',
    4202504: 'OrderEnteredBy',
    4202512: 'OrderCallbackPhoneNumber',
    4202513: 'OrderCallbackTelecomInformation',
    4210743: 'HumanPerformerName',
    4235381: 'VerifyingObserverName',
    4235555: 'PersonName',
    4236039: 'CurrentObserverTrial',
    4236114: 'VerbalSourceTrial',
    4236115: 'AddressTrial',
    4236116: 'TelephoneNumberTrial',
    7340164: 'ContentCreatorName',
    7340166: 'ContentCreatorIdentificationCodeSequence',
    8915216: 'TopicAuthor',
    805699750: 'ROIInterpreter',
    806223880: 'ReviewerName',
    1074266370: 'InterpretationRecorder',
    1074266378: 'InterpretationTranscriber',
    1074266380: 'InterpretationAuthor',
    1074266388: 'PhysicianApprovingInterpretation',
    1074266393: 'DistributionName',
    1074266394: 'DistributionAddress',
  },
  'the place and its devices': {
    524416: 'InstitutionName',
    524417: 'InstitutionAddress',
    524418: 'InstitutionCodeSequence',
    528400: 'StationName',
    528448: 'InstitutionalDepartmentName',
    1441906: 'GPSLatitude',
    1441908: 'GPSLongitude',
    1576960: 'DeviceSerialNumber',
    1576969: 'UniqueDeviceIdentifier',
    1576970: 'UDISequence',
    3280947: 'RequestingService',
    4210742: 'HumanPerformerOrganization',
    4235303: 'VerifyingOrganization',
  },
  // Values from before they were replaced, and certificates with the name of whoever signed.
  'what was there before': {
    67110241: 'OriginalAttributesSequence',
    4294639610: 'DigitalSignaturesSequence',
  },
};

const tagged = (keywords: Readonly<Record<number, string>>) =>
  Object.entries(keywords).map(([tag, keyword]) => [Number(tag), keyword] as const);

/** Keywords of the attributes that say who somebody is, by group and element. */
export const identifying: ReadonlyMap<number, string> = new Map(
  [codes, ...Object.values(byReason)].flatMap(tagged),
);

/** Whether an attribute may have a code as its value where the patient's identity was removed. */
export const mayBeCode = (tag: number): boolean => Object.hasOwn(codes, tag);
