import type { AttributeGroup } from './table.js';

/** What an image is, how its pixels are stored, and where they lie. */
export const imageAttributes: readonly AttributeGroup[] = [
  {
    reason: 'What the object is, and its place among the others of its series.',
    rows: `
    00080016 UI SOPClassUID: well-known
    00080060 CS Modality: @modality ? OT
    00080008 CS ImageType: @imageType ? ORIGINAL
    00200013 IS InstanceNumber
    00200011 IS SeriesNumber
    00200012 IS AcquisitionNumber
    00201002 IS ImagesInAcquisition
    00200100 IS TemporalPositionIdentifier
    00200105 IS NumberOfTemporalPositions
    00209128 UL TemporalPositionIndex
    00200110 DS TemporalResolution
    00209056 SH StackID: /[0-9]{1,4}/ ? 1
    00209057 UL InStackPositionNumber
    00209162 US InConcatenationNumber
    00209163 US InConcatenationTotalNumber
    00209228 UL ConcatenationFrameOffsetNumber`,
  },
  {
    reason: 'What belongs together. The numbers are replaced by others, the same for the same.',
    rows: `
    00080018 UI SOPInstanceUID
    0020000d UI StudyInstanceUID
    0020000e UI SeriesInstanceUID
    00200052 UI FrameOfReferenceUID
    00200200 UI SynchronizationFrameOfReferenceUID
    00209164 UI DimensionOrganizationUID
    00209161 UI ConcatenationUID
    00083010 UI IrradiationEventUID
    00200242 UI SOPInstanceUIDOfConcatenationSource`,
  },
  {
    reason: 'Readers expect these. They are written without a value, or with one that says nothing.',
    rows: `
    00080020 DA StudyDate: ?
    00080030 TM StudyTime: ?
    00080050 SH AccessionNumber: ?
    00080090 PN ReferringPhysicianName: ?
    00100010 PN PatientName: ?
    00100020 LO PatientID: pseudonym
    00100030 DA PatientBirthDate: ?
    00100040 CS PatientSex: ?
    00200010 SH StudyID: ?
    00080070 LO Manufacturer: @manufacturers ? UNKNOWN
    00081090 LO ManufacturerModelName: ? UNKNOWN
    00181000 LO DeviceSerialNumber: ? REMOVED
    00181020 LO SoftwareVersions: ? REMOVED
    00400555 SQ AcquisitionContextSequence: ?`,
  },
  {
    reason: 'How the pixels are stored.',
    isNeeded: true,
    rows: `
    00280002 US SamplesPerPixel
    00280004 CS PhotometricInterpretation: MONOCHROME1 | MONOCHROME2 | PALETTE COLOR | RGB | YBR_FULL | YBR_FULL_422 | YBR_PARTIAL_420 | YBR_PARTIAL_422 | YBR_ICT | YBR_RCT | HSV | ARGB | CMYK | XYB ?!
    00280006 US PlanarConfiguration
    00280008 IS NumberOfFrames
    00280009 AT FrameIncrementPointer
    00280010 US Rows
    00280011 US Columns
    00280100 US BitsAllocated
    00280101 US BitsStored
    00280102 US HighBit
    00280103 US PixelRepresentation
    00280106 US|SS SmallestImagePixelValue
    00280107 US|SS LargestImagePixelValue
    00280108 US|SS SmallestPixelValueInSeries
    00280109 US|SS LargestPixelValueInSeries
    00280120 US|SS PixelPaddingValue
    00280121 US|SS PixelPaddingRangeLimit
    00280034 IS PixelAspectRatio
    00282110 CS LossyImageCompression: 00 | 01
    00282112 DS LossyImageCompressionRatio
    00282114 CS LossyImageCompressionMethod: ISO_10918_1 | ISO_14495_1 | ISO_15444_1 | ISO_15444_15 | ISO_13818_2 | ISO_14496_10 | ISO_23008_2 | ISO_18181_1
    00080064 CS ConversionType: DV | DI | DF | WSD | SD | SI | DRW | SYN ? WSD
    00280301 CS BurnedInAnnotation: YES | NO
    00280302 CS RecognizableVisualFeatures: YES | NO
    00280300 CS QualityControlImage: YES | NO | BOTH
    00281101 US|SS RedPaletteColorLookupTableDescriptor
    00281102 US|SS GreenPaletteColorLookupTableDescriptor
    00281103 US|SS BluePaletteColorLookupTableDescriptor
    00281201 OW RedPaletteColorLookupTableData*
    00281202 OW GreenPaletteColorLookupTableData*
    00281203 OW BluePaletteColorLookupTableData*
    00281221 OW SegmentedRedPaletteColorLookupTableData*
    00281222 OW SegmentedGreenPaletteColorLookupTableData*
    00281223 OW SegmentedBluePaletteColorLookupTableData*
    00089205 CS PixelPresentation: COLOR | MONOCHROME | MIXED | TRUE_COLOR | COLOR_REF | COLOR_RANGE
    00089206 CS VolumetricProperties: VOLUME | SAMPLED | DISTORTED | MIXED
    00089207 CS VolumeBasedCalculationTechnique: MAX_IP | MIN_IP | VOLUME_RENDER | SURFACE_RENDER | MPR | CURVED_MPR | NONE | MIXED`,
  },
  {
    reason: 'What the values of the pixels mean, and how they are shown.',
    isNeeded: true,
    rows: `
    00281052 DS RescaleIntercept
    00281053 DS RescaleSlope
    00281054 LO RescaleType: @units ? US
    00281050 DS WindowCenter
    00281051 DS WindowWidth
    00281056 CS VOILUTFunction: LINEAR | LINEAR_EXACT | SIGMOID ?!
    00281040 CS PixelIntensityRelationship: LIN | LOG | DISP ?!
    00281041 SS PixelIntensityRelationshipSign
    20500020 CS PresentationLUTShape: IDENTITY | INVERSE | LIN OD ?!
    00080068 CS PresentationIntentType: FOR PRESENTATION | FOR PROCESSING
    00283000 SQ ModalityLUTSequence
    00283010 SQ VOILUTSequence
    00283002 US|SS LUTDescriptor
    00283004 LO ModalityLUTType: @units ? US
    00283006 US|OW LUTData*
    00283003 LO LUTExplanation: ? REMOVED
    00409210 SH LUTLabel: ? REMOVED
    00409096 SQ RealWorldValueMappingSequence
    00409216 US|SS RealWorldValueFirstValueMapped
    00409211 US|SS RealWorldValueLastValueMapped
    00409214 FD DoubleFloatRealWorldValueFirstValueMapped
    00409213 FD DoubleFloatRealWorldValueLastValueMapped
    00409224 FD RealWorldValueIntercept
    00409225 FD RealWorldValueSlope
    00409212 FD RealWorldValueLUTData*
    004008ea SQ MeasurementUnitsCodeSequence
    00409220 SQ QuantityDefinitionSequence`,
  },
  {
    reason: 'Codes of terminologies. Those that are not known to be one are replaced.',
    rows: `
    00080100 SH CodeValue: /[0-9]{5,18}|[A-Z]-[0-9A-F]{4,6}|/@ucum ? REMOVED
    00080102 SH CodingSchemeDesignator: DCM | SCT | SRT | SNM3 | UCUM | FMA | LN | NCIt | RADLEX ? 99REMOVED
    00080104 LO CodeMeaning: @meanings ? see the code`,
  },
  {
    reason: 'Where the pixels lie in space.',
    isNeeded: true,
    rows: `
    00280030 DS PixelSpacing
    00181164 DS ImagerPixelSpacing
    00182010 DS NominalScannedPixelSpacing
    00280a02 CS PixelSpacingCalibrationType: GEOMETRY | FIDUCIAL
    00181114 DS EstimatedRadiographicMagnificationFactor
    00180050 DS SliceThickness
    00180088 DS SpacingBetweenSlices
    00200032 DS ImagePositionPatient
    00200037 DS ImageOrientationPatient
    00201041 DS SliceLocation
    00540081 US NumberOfSlices
    30020010 DS RTImageOrientation
    30020011 DS ImagePlanePixelSpacing
    30020012 DS RTImagePosition
    30020022 DS RadiationMachineSAD
    30020026 DS RTImageSID
    00186011 SQ SequenceOfUltrasoundRegions
    00186012 US RegionSpatialFormat
    00186014 US RegionDataType
    00186016 UL RegionFlags
    00186018 UL RegionLocationMinX0
    0018601a UL RegionLocationMinY0
    0018601c UL RegionLocationMaxX1
    0018601e UL RegionLocationMaxY1
    00186024 US PhysicalUnitsXDirection
    00186026 US PhysicalUnitsYDirection
    0018602c FD PhysicalDeltaX
    0018602e FD PhysicalDeltaY
    00185100 CS PatientPosition: HFP | HFS | HFDR | HFDL | FFDR | FFDL | FFP | FFS | LFP | LFS | RFP | RFS | AFDR | AFDL | PFDR | PFDL
    00200020 CS PatientOrientation: /[APHFRL]{1,3}/ ?
    00540410 SQ PatientOrientationCodeSequence
    00540412 SQ PatientOrientationModifierCodeSequence
    00540414 SQ PatientGantryRelationshipCodeSequence
    00201040 LO PositionReferenceIndicator: XY | SN | SM ?
    00181120 DS GantryDetectorTilt
    00181121 DS GantryDetectorSlew
    00181130 DS TableHeight
    00181131 DS TableTraverse
    00180090 DS DataCollectionDiameter
    00181100 DS ReconstructionDiameter
    00189313 FD DataCollectionCenterPatient
    00189318 FD ReconstructionTargetCenterPatient
    00209301 FD ImagePositionVolume
    00209302 FD ImageOrientationVolume
    00189317 FD ReconstructionFieldOfView
    00189322 FD ReconstructionPixelSpacing
    00189319 FD ReconstructionAngle
    00181135 DS TableVerticalIncrement
    00181136 DS TableLateralIncrement
    00181137 DS TableLongitudinalIncrement
    00181138 DS TableAngle`,
  },
  {
    reason: 'Which part of the body it is.',
    rows: `
    00180015 CS BodyPartExamined: @bodyParts ?
    00200060 CS Laterality: R | L ?
    00200062 CS ImageLaterality: R | L | U | B
    00209072 CS FrameLaterality: R | L | U | B
    00185101 CS ViewPosition: AP | PA | LL | RL | RLD | LLD | RLO | LLO | CC | MLO | ML | LM | LMO | XCCL | XCCM | FB | SIO | ISO | CV | TAN | LAT | RAO | LAO | OBL ?
    00082218 SQ AnatomicRegionSequence
    00082220 SQ AnatomicRegionModifierSequence
    00082228 SQ PrimaryAnatomicStructureSequence
    00540220 SQ ViewCodeSequence
    00540222 SQ ViewModifierCodeSequence`,
  },
  {
    reason: 'The same for each frame of an enhanced object.',
    isNeeded: true,
    rows: `
    52009229 SQ SharedFunctionalGroupsSequence
    52009230 SQ PerFrameFunctionalGroupsSequence
    00209221 SQ DimensionOrganizationSequence
    00209311 CS DimensionOrganizationType: 3D | 3D_TEMPORAL | TILED_FULL | TILED_SPARSE
    00209222 SQ DimensionIndexSequence
    00209165 AT DimensionIndexPointer
    00209167 AT FunctionalGroupPointer
    00209157 UL DimensionIndexValues*
    00289110 SQ PixelMeasuresSequence
    00209113 SQ PlanePositionSequence
    00209116 SQ PlaneOrientationSequence
    0020930e SQ PlanePositionVolumeSequence
    0020930f SQ PlaneOrientationVolumeSequence
    00209111 SQ FrameContentSequence
    00209156 US FrameAcquisitionNumber
    00189220 FD FrameAcquisitionDuration
    00209071 SQ FrameAnatomySequence
    00289132 SQ FrameVOILUTSequence
    00289145 SQ PixelValueTransformationSequence
    00289443 SQ FramePixelDataPropertiesSequence
    00089007 CS FrameType: @imageType ? ORIGINAL
    00189472 SQ FrameDisplayShutterSequence
    00209170 SQ UnassignedSharedConvertedAttributesSequence
    00209171 SQ UnassignedPerFrameConvertedAttributesSequence
    00189477 SQ IrradiationEventIdentificationSequence
    00189118 SQ CardiacSynchronizationSequence
    00209253 SQ RespiratorySynchronizationSequence
    00209310 SQ TemporalPositionSequence
    0020930d FD TemporalPositionTimeOffset
    00209241 FL NominalPercentageOfCardiacPhase
    00209153 FD NominalCardiacTriggerDelayTime
    00181083 IS IntervalsAcquired
    00181084 IS IntervalsRejected
    00189004 CS ContentQualification: PRODUCT | RESEARCH | SERVICE
    00089208 CS ComplexImageComponent: MAGNITUDE | PHASE | REAL | IMAGINARY | MIXED ?!
    00089209 CS AcquisitionContrast: DIFFUSION | FLOW_ENCODED | FLUID_ATTENUATED | PERFUSION | PROTON_DENSITY | STIR | TAGGING | T1 | T2 | T2_STAR | TOF | MIXED | UNKNOWN ? UNKNOWN
    00189073 FD AcquisitionDuration
    00209255 FD NominalRespiratoryTriggerDelayTime
    00209252 FD ActualCardiacTriggerDelayTime
    00189037 CS CardiacSynchronizationTechnique: NONE | REALTIME | PROSPECTIVE | RETROSPECTIVE | PACED | OTHER
    00189085 CS CardiacSignalSource: ECG | VCG | PP | MR
    00189170 CS RespiratoryMotionCompensationTechnique: NONE | BREATH_HOLD | REALTIME | GATING | TRACKING | PHASE_ORDERING | PHASE_SCRAMBLING | RETROSPECTIVE | CORRECTION | UNKNOWN
    00189070 FD CardiacRRIntervalSpecified`,
  },
];
