import type { AttributeGroup } from './table.js';

/** How an image was acquired: attributes that models are trained for or select by. */
export const acquisitionAttributes: readonly AttributeGroup[] = [
  {
    reason: 'X-rays and CT: energy, dose, reconstruction, and what hides parts of the image.',
    rows: `
    00180060 DS KVP
    00181151 IS XRayTubeCurrent
    00181150 IS ExposureTime
    00181152 IS Exposure
    00181153 IS ExposureInuAs
    00188150 DS ExposureTimeInuS
    00189328 FD ExposureTimeInms
    00188151 DS XRayTubeCurrentInuA
    00189330 FD XRayTubeCurrentInmA
    00189332 FD ExposureInmAs
    00180022 CS ScanOptions: @scanOptions ?
    00181160 SH FilterType: NONE | STRIP | WEDGE | BUTTERFLY | MULTIPLE | FLAT | BODY FILTER | HEAD FILTER | LARGE BOWTIE FIL | 0
    00187050 CS FilterMaterial: @metals
    00187052 DS FilterThicknessMinimum
    00187054 DS FilterThicknessMaximum
    00181170 IS GeneratorPower
    00181190 DS FocalSpots
    00181210 SH ConvolutionKernel: /[A-Z][a-z]{0,1}[0-9]{2}[a-z]{0,2}|FC[0-9]{2}|[0-9]{1,2}/@kernels
    00189316 CS ConvolutionKernelGroup: BRAIN | SOFT_TISSUE | LUNG | BONE | CONSTANT_ANGLE
    00181140 CS RotationDirection: CW | CC
    00189305 FD RevolutionTime
    00189306 FD SingleCollimationWidth
    00189307 FD TotalCollimationWidth
    00189309 FD TableSpeed
    00189310 FD TableFeedPerRotation
    00189311 FD SpiralPitchFactor
    00181110 DS DistanceSourceToDetector
    00181111 DS DistanceSourceToPatient
    00189323 CS ExposureModulationType: NONE | XYZ_EC | XY_EC | Z_EC | ANGULAR | Z ANGULAR
    00189345 FD CTDIvol
    00189346 SQ CTDIPhantomTypeCodeSequence
    00189302 CS AcquisitionType: SEQUENCED | SPIRAL | CONSTANT_ANGLE | STATIONARY | FREE
    00189303 FD TubeAngle
    00189333 CS ConstantVolumeFlag: YES | NO
    00189334 CS FluoroscopyFlag: YES | NO
    00189315 CS ReconstructionAlgorithm: FILTER_BACK_PROJ | ITERATIVE
    00189320 SH ImageFilter: ? UNKNOWN
    00181191 CS AnodeTargetMaterial: @metals
    001811a0 DS BodyPartThickness
    001811a2 DS CompressionForce
    00181508 CS PositionerType: CARM | COLUMN | MAMMOGRAPHIC | PANORAMIC | CEPHALOSTAT | RIGID | NONE
    00181510 DS PositionerPrimaryAngle
    00181511 DS PositionerSecondaryAngle
    00181500 CS PositionerMotion: STATIC | DYNAMIC
    00187004 CS DetectorType: DIRECT | SCINTILLATOR | STORAGE | FILM
    00187005 CS DetectorConfiguration: AREA | SLOT
    00181530 DS DetectorPrimaryAngle
    00181531 DS DetectorSecondaryAngle
    0018701a DS DetectorBinning
    00187020 DS DetectorElementPhysicalSize
    00187022 DS DetectorElementSpacing
    00187024 CS DetectorActiveShape: @shapes
    00187026 DS DetectorActiveDimensions
    00187028 DS DetectorActiveOrigin
    00187001 DS DetectorTemperature
    00181147 CS FieldOfViewShape: @shapes
    00181149 IS FieldOfViewDimensions
    00187030 DS FieldOfViewOrigin
    00187032 DS FieldOfViewRotation
    00187034 CS FieldOfViewHorizontalFlip: YES | NO
    00181700 CS CollimatorShape: @shapes
    00181702 IS CollimatorLeftVerticalEdge
    00181704 IS CollimatorRightVerticalEdge
    00181706 IS CollimatorUpperHorizontalEdge
    00181708 IS CollimatorLowerHorizontalEdge
    00181600 CS ShutterShape: @shapes
    00181602 IS ShutterLeftVerticalEdge
    00181604 IS ShutterRightVerticalEdge
    00181606 IS ShutterUpperHorizontalEdge
    00181608 IS ShutterLowerHorizontalEdge
    00181610 IS CenterOfCircularShutter
    00181612 IS RadiusOfCircularShutter
    00181620 IS VerticesOfThePolygonalShutter
    00181622 US ShutterPresentationValue
    00181166 CS Grid: FIXED | FOCUSED | RECIPROCATING | PARALLEL | CROSSED | NONE | IN | OUT
    00187060 CS ExposureControlMode: MANUAL | AUTOMATIC
    00187064 CS ExposureStatus: NORMAL | ABORTED
    00181405 IS RelativeXRayExposure
    00181411 DS ExposureIndex
    00181412 DS TargetExposureIndex
    00181413 DS DeviationIndex
    00186000 DS Sensitivity
    0018115a CS RadiationMode: CONTINUOUS | PULSED
    00181155 CS RadiationSetting: SC | GR
    00181162 DS IntensifierSize
    00281300 CS BreastImplantPresent: YES | NO
    00281350 CS PartialView: YES | NO
    00400318 CS OrganExposed: BREAST
    00180040 IS CineRate
    00082144 IS RecommendedDisplayFrameRate
    00181063 DS FrameTime
    00181065 DS FrameTimeVector*
    00181066 DS FrameDelay
    00082142 IS StartTrim
    00082143 IS StopTrim
    00181244 US PreferredPlaybackSequencing
    00500004 CS CalibrationImage: YES | NO | MIXED
    00286100 SQ MaskSubtractionSequence
    00286101 CS MaskOperation: NONE | AVG_SUB | TID | REV_TID
    00286110 US MaskFrameNumbers
    00286114 FL MaskSubPixelShift
    00286102 US ApplicableFrameRange
    00286112 US ContrastFrameAveraging
    00189301 SQ CTAcquisitionTypeSequence
    00189304 SQ CTAcquisitionDetailsSequence
    00189308 SQ CTTableDynamicsSequence
    00189326 SQ CTPositionSequence
    00189312 SQ CTGeometrySequence
    00189314 SQ CTReconstructionSequence
    00189321 SQ CTExposureSequence
    00189325 SQ CTXRayDetailsSequence
    00189329 SQ CTImageFrameTypeSequence
    00189360 SQ CTAdditionalXRaySourceSequence
    00189361 CS MultienergyCTAcquisition: YES | NO
    00189351 FL CalciumScoringMassFactorPatient
    00189352 FL CalciumScoringMassFactorDevice
    00189353 FL EnergyWeightingFactor
    00189327 FD TablePosition
    00181271 FD WaterEquivalentDiameter`,
  },
  {
    reason: 'Whether there is contrast agent, and how much.',
    rows: `
    00180010 LO ContrastBolusAgent: ? YES
    00181041 DS ContrastBolusVolume
    00181044 DS ContrastBolusTotalDose
    00181048 CS ContrastBolusIngredient: IODINE | GADOLINIUM | CARBON DIOXIDE | BARIUM | XENON
    00181049 DS ContrastBolusIngredientConcentration
    00181046 DS ContrastFlowRate
    00181047 DS ContrastFlowDuration
    00189337 US ContrastBolusAgentNumber
    00189342 CS ContrastBolusAgentAdministered: YES | NO
    00189343 CS ContrastBolusAgentDetected: YES | NO
    00189344 CS ContrastBolusAgentPhase: PRE_CONTRAST | POST_CONTRAST | IMMEDIATE | DYNAMIC | STEADY_STATE | DELAYED | ARTERIAL | CAPILLARY | VENOUS | PORTAL_VENOUS
    00180012 SQ ContrastBolusAgentSequence
    00180014 SQ ContrastBolusAdministrationRouteSequence
    00189338 SQ ContrastBolusIngredientCodeSequence
    00189341 SQ ContrastBolusUsageSequence
    00189425 CS ContrastBolusIngredientOpaque: YES | NO`,
  },
  {
    reason: 'Diffusion: by which b-value and direction an image is weighted.',
    isNeeded: true,
    rows: `
    00189087 FD DiffusionBValue
    00189089 FD DiffusionGradientOrientation
    00189075 CS DiffusionDirectionality: DIRECTIONAL | BMATRIX | ISOTROPIC | NONE
    00189147 CS DiffusionAnisotropyType: FRACTIONAL | RELATIVE | VOLUME_RATIO
    00189076 SQ DiffusionGradientDirectionSequence
    00189601 SQ DiffusionBMatrixSequence
    00189602 FD DiffusionBValueXX
    00189603 FD DiffusionBValueXY
    00189604 FD DiffusionBValueXZ
    00189605 FD DiffusionBValueYY
    00189606 FD DiffusionBValueYZ
    00189607 FD DiffusionBValueZZ
    00189117 SQ MRDiffusionSequence`,
  },
  {
    reason: 'Magnetic resonance: sequence, times, angles, field, diffusion.',
    rows: `
    00180020 CS ScanningSequence: SE | IR | GR | EP | RM ? RM
    00180021 CS SequenceVariant: SK | MTC | SS | TRSS | SP | MP | OSP | TOF | NONE ? NONE
    00180023 CS MRAcquisitionType: 2D | 3D
    00180025 CS AngioFlag: Y | N
    00180080 DS RepetitionTime
    00180081 DS EchoTime
    00180082 DS InversionTime
    00180083 DS NumberOfAverages
    00180084 DS ImagingFrequency
    00180085 SH ImagedNucleus: @nuclei
    00180086 IS EchoNumbers
    00180087 DS MagneticFieldStrength
    00180089 IS NumberOfPhaseEncodingSteps
    00180091 IS EchoTrainLength
    00180093 DS PercentSampling
    00180094 DS PercentPhaseFieldOfView
    00180095 DS PixelBandwidth
    00181060 DS TriggerTime
    00181062 IS NominalInterval
    00181080 CS BeatRejectionFlag: Y | N
    00181081 IS LowRRValue
    00181082 IS HighRRValue
    00181088 IS HeartRate
    00181090 IS CardiacNumberOfImages
    00181094 IS TriggerWindow
    00181310 US AcquisitionMatrix
    00181312 CS InPlanePhaseEncodingDirection: ROW | COL | ROW | COLUMN | OTHER
    00181314 DS FlipAngle
    00181315 CS VariableFlipAngleFlag: Y | N
    00181316 DS SAR
    00181318 DS dBdt
    00181320 FL B1rms
    00189226 SQ MRImageFrameTypeSequence
    00189112 SQ MRTimingAndRelatedParametersSequence
    00189114 SQ MREchoSequence
    00189115 SQ MRModifierSequence
    00189006 SQ MRImagingModifierSequence
    00189125 SQ MRFOVGeometrySequence
    00189042 SQ MRReceiveCoilSequence
    00189049 SQ MRTransmitCoilSequence
    00189119 SQ MRAveragesSequence
    00189197 SQ MRVelocityEncodingSequence
    00189251 SQ MRArterialSpinLabelingSequence
    00189152 SQ MRMetaboliteMapSequence
    00189107 SQ MRSpatialSaturationSequence
    00189082 FD EffectiveEchoTime
    00189079 FD InversionTimes
    00189009 CS InversionRecovery: YES | NO
    00189010 CS FlowCompensation: ACCELERATION | VELOCITY | OTHER | NONE
    00189183 CS FlowCompensationDirection: PHASE | FREQUENCY | SLICE_SELECT | SLICE_AND_FREQ | SLICE_FREQ_PHASE | PHASE_AND_FREQ | SLICE_AND_PHASE | OTHER
    00189016 CS Spoiling: RF | GRADIENT | RF_AND_GRADIENT | NONE
    00189021 CS T2Preparation: YES | NO
    00189026 CS SpectrallySelectedExcitation: WATER | FAT | NONE
    00189027 CS SpatialPresaturation: SLAB | NONE
    00189081 CS PartialFourier: YES | NO
    00189036 CS PartialFourierDirection: PHASE | FREQUENCY | SLICE_SELECT | COMBINATION
    00189077 CS ParallelAcquisition: YES | NO
    00189078 CS ParallelAcquisitionTechnique: PILS | SENSE | SMASH | OTHER
    00189069 FD ParallelReductionFactorInPlane
    00189155 FD ParallelReductionFactorOutOfPlane
    00189168 FD ParallelReductionFactorSecondInPlane
    00189020 CS MagnetizationTransfer: ON_RESONANCE | OFF_RESONANCE | NONE
    00189022 CS BloodSignalNulling: YES | NO
    00189028 CS Tagging: GRID | LINE | NONE
    00189030 FD TagSpacingFirstDimension
    00189218 FD TagSpacingSecondDimension
    00189019 FD TagAngleFirstAxis
    00189219 SS TagAngleSecondAxis
    00189035 FD TagThickness
    00189014 CS PhaseContrast: YES | NO
    00189090 FD VelocityEncodingDirection
    00189091 FD VelocityEncodingMinimumValue
    00189217 FD VelocityEncodingMaximumValue
    00189250 CS ArterialSpinLabelingContrast: CONTINUOUS | PSEUDOCONTINUOUS | PULSED
    00189257 CS ASLContext: LABEL | CONTROL | M_ZERO_SCAN
    00189258 UL ASLPulseTrainDuration
    00189259 CS ASLCrusherFlag: YES | NO
    00189005 SH PulseSequenceName: ? UNKNOWN
    00189008 CS EchoPulseSequence: SPIN | GRADIENT | BOTH
    00189012 CS MultiPlanarExcitation: YES | NO
    00189015 CS TimeOfFlightContrast: YES | NO
    00189011 CS MultipleSpinEcho: YES | NO
    00189017 CS SteadyStatePulseSequence: FREE_PRECESSION | TRANSVERSE | TIME_REVERSED | LONGITUDINAL | NONE
    00189018 CS EchoPlanarPulseSequence: YES | NO
    00189024 CS SaturationRecovery: YES | NO
    00189032 CS GeometryOfKSpaceTraversal: RECTILINEAR | RADIAL | SPIRAL
    00189033 CS SegmentedKSpaceTraversal: SINGLE | PARTIAL | FULL
    00189034 CS RectilinearPhaseEncodeReordering: LINEAR | CENTRIC | SEGMENTED | REVERSE_LINEAR | REVERSE_CENTRIC | UNKNOWN
    00189064 CS KSpaceFiltering: COSINE | COSINE_SQUARED | FERMI | GAUSSIAN | HAMMING | HANNING | LORENTZIAN | LRNTZ_GSS_TRNSFM | RIESZ | TUKEY | USER_DEFINED | NONE | OTHER ? OTHER
    00189029 CS OversamplingPhase: 2D | 3D | 2D_3D | NONE
    00189094 CS CoverageOfKSpace: FULL | CYLINDRICAL | ELLIPSOIDAL | WEIGHTED
    00189093 US NumberOfKSpaceTrajectories
    00189100 CS ResonantNucleus: @nuclei
    00189241 US GradientEchoTrainLength
    00189240 US RFEchoTrainLength
    00189058 US MRAcquisitionFrequencyEncodingSteps
    00189231 US MRAcquisitionPhaseEncodingStepsInPlane
    00189232 US MRAcquisitionPhaseEncodingStepsOutOfPlane
    00189098 FD TransmitterFrequency
    00189043 CS ReceiveCoilType: BODY | VOLUME | SURFACE | MULTICOIL | EXTREMITY
    00181250 SH ReceiveCoilName: ? UNKNOWN
    00181251 SH TransmitCoilName: ? UNKNOWN
    00189051 CS TransmitCoilType: BODY | VOLUME | SURFACE
    00189044 CS QuadratureReceiveCoil: YES | NO
    00189182 FD GradientOutput
    00189180 CS GradientOutputType: DB_DT | ELECTRIC_FIELD | PER_NERVE_STIM
    00189179 CS SpecificAbsorptionRateDefinition: IEC_WHOLE_BODY | IEC_PARTIAL_BODY | IEC_HEAD | IEC_LOCAL
    00189181 FD SpecificAbsorptionRateValue
    00189178 CS OperatingMode: IEC_NORMAL | IEC_FIRST_LEVEL | IEC_SECOND_LEVEL | STATIC FIELD
    00189177 CS OperatingModeType: STATIC FIELD | RF | GRADIENT
    00189176 SQ OperatingModeSequence
    00189174 CS ApplicableSafetyStandardAgency: IEC | FDA | MHW
    00189025 CS SpectrallySelectedSuppression: FAT | WATER | FAT_AND_WATER | SILICON_GEL | NONE
    00189060 CS DecoupledNucleus: @nuclei
    00189059 CS Decoupling: YES | NO
    00189041 LO ReceiveCoilManufacturerName: ?
    00189050 LO TransmitCoilManufacturerName: ?
    00189045 SQ MultiCoilDefinitionSequence`,
  },
];
