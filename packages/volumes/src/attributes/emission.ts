import type { AttributeGroup } from './table.js';

/** Attributes from which uptake is computed, and times. */
export const emissionAttributes: readonly AttributeGroup[] = [
  {
    reason: 'PET and nuclear medicine: units, corrections, activity.',
    isNeeded: true,
    rows: `
    00541001 CS Units: @petUnits ?!
    00541002 CS CountsSource: EMISSION | TRANSMISSION
    00541000 CS SeriesType: STATIC | DYNAMIC | GATED | WHOLE BODY | IMAGE | REPROJECTION
    00541004 CS ReprojectionMethod: SUM | MAX PIXEL
    00280051 CS CorrectedImage: @corrections ?!
    00541102 CS DecayCorrection: NONE | START | ADMIN ?!
    00541321 DS DecayFactor
    00541101 LO AttenuationCorrectionMethod: ?
    00541105 LO ScatterCorrectionMethod: ?
    00541103 LO ReconstructionMethod: ?
    00541006 CS SUVType: BSA | BW | LBM | LBMJANMA | LBMJAMES128 | IBW ?!
    00540016 SQ RadiopharmaceuticalInformationSequence
    00181074 DS RadionuclideTotalDose
    00181075 DS RadionuclideHalfLife
    00181076 DS RadionuclidePositronFraction
    00181071 DS RadiopharmaceuticalVolume
    00181077 DS RadiopharmaceuticalSpecificActivity
    00540300 SQ RadionuclideCodeSequence
    00540304 SQ RadiopharmaceuticalCodeSequence
    00540302 SQ AdministrationRouteCodeSequence
    00180031 LO Radiopharmaceutical: @tracers ?
    00541300 DS FrameReferenceTime
    00181242 IS ActualFrameDuration
    00540061 US NumberOfRRIntervals
    00540071 US NumberOfTimeSlots
    00540101 US NumberOfTimeSlices
    00541330 US ImageIndex
    00540500 CS SliceProgressionDirection: APEX_TO_BASE | BASE_TO_APEX | ANT_TO_POST | POST_TO_ANT
    00540501 CS ScanProgressionDirection: HEAD_TO_FEET | FEET_TO_HEAD
    00541322 DS DoseCalibrationFactor
    00541323 DS ScatterFractionFactor
    00541324 DS DeadTimeFactor
    00541320 DS SliceSensitivityFactor
    00541100 CS RandomsCorrectionMethod: NONE | DLYD | SING | PROCESSING
    00189765 CS RandomsCorrected: YES | NO
    00189759 CS AttenuationCorrected: YES | NO
    00189760 CS ScatterCorrected: YES | NO
    00189758 CS DecayCorrected: YES | NO
    00189761 CS DeadTimeCorrected: YES | NO
    00189762 CS GantryMotionCorrected: YES | NO
    00189763 CS PatientMotionCorrected: YES | NO
    00189764 CS CountLossNormalizationCorrected: YES | NO
    00189766 CS NonUniformRadialSamplingCorrected: YES | NO
    00189767 CS SensitivityCalibrated: YES | NO
    00189768 CS DetectorNormalizationCorrection: YES | NO
    00189738 CS AttenuationCorrectionSource: CT | MR | POSITRON SOURCE | SINGLE PHOTON | CALCULATED | OTHER
    00541210 DS CoincidenceWindowWidth
    00540013 SQ EnergyWindowRangeSequence
    00540014 DS EnergyWindowLowerLimit
    00540015 DS EnergyWindowUpperLimit
    00541200 DS AxialAcceptance
    00541201 IS AxialMash
    00541202 IS TransverseMash
    00541310 IS PrimaryPromptsCountsAccumulated
    00541311 IS SecondaryCountsAccumulated
    00181181 CS CollimatorType: PARA | PINH | FANB | CONE | SLNT | ASTG | DIVG | NONE | UNKN | RING
    00181180 SH CollimatorGridName: ?
    00540202 CS TypeOfDetectorMotion: STATIONARY | STEP AND SHOOT | CONTINUOUS | WOBBLE | CLAMSHELL | NONE
    00189751 SQ PETFrameTypeSequence
    00189732 SQ PETFrameAcquisitionSequence
    00189733 SQ PETDetectorMotionDetailsSequence
    00189735 SQ PETPositionSequence
    00189734 SQ PETTableDynamicsSequence
    00189736 SQ PETFrameCorrectionFactorsSequence
    00189749 SQ PETReconstructionSequence
    00189737 SQ RadiopharmaceuticalUsageSequence
    00189729 US RadiopharmaceuticalAgentNumber
    00540010 US EnergyWindowVector*
    00540011 US NumberOfEnergyWindows
    00540020 US DetectorVector*
    00540021 US NumberOfDetectors
    00540030 US PhaseVector*
    00540031 US NumberOfPhases
    00540050 US RotationVector*
    00540051 US NumberOfRotations
    00540060 US RRIntervalVector*
    00540070 US TimeSlotVector*
    00540080 US SliceVector*
    00540090 US AngularViewVector*
    00540100 US TimeSliceVector*
    00540012 SQ EnergyWindowInformationSequence
    00540022 SQ DetectorInformationSequence
    00540052 SQ RotationInformationSequence
    00540032 SQ PhaseInformationSequence
    00540036 IS PhaseDelay
    00540033 US NumberOfFramesInPhase
    00540053 US NumberOfFramesInRotation
    00181144 DS AngularStep
    00540200 DS StartAngle
    00181143 DS ScanArc
    00181142 DS RadialPosition*
    00180070 IS CountsAccumulated
    00181301 CS WholeBodyTechnique: 1PASS | 2PASS | PCN | MSP
    00280031 DS ZoomFactor
    00181145 DS CenterOfRotationOffset
    00181182 IS FocalDistance
    00181183 DS XFocusCenter
    00181184 DS YFocusCenter
    00540211 US NumberOfTriggersInPhase
    00540062 SQ GatedInformationSequence
    00540038 IS PauseBetweenFrames
    00181300 DS ScanVelocity
    00181302 IS ScanLength
    00189756 CS ReconstructionType: 2D | 3D | 3D_REBINNED
    00189769 CS IterativeReconstructionMethod: YES | NO
    00189739 US NumberOfIterations
    00189740 US NumberOfSubsets
    00189755 CS TimeOfFlightInformationUsed: TRUE | FALSE`,
  },
  {
    reason: 'The standardised uptake value is computed with these.',
    option: 'Retain Patient Characteristics',
    only: 'emission',
    isNeeded: true,
    rows: `
    00101030 DS PatientWeight
    00101020 DS PatientSize
    00100040 CS PatientSex: M | F | O ?`,
  },
  {
    reason: 'Decay and frames are told by times. All of a study are shifted by the same.',
    option: 'Retain Longitudinal Temporal Information with Modified Dates',
    only: 'timed',
    rows: `
    00080020 DA StudyDate
    00080030 TM StudyTime
    00181072 TM RadiopharmaceuticalStartTime
    00181078 DT RadiopharmaceuticalStartDateTime
    00181073 TM RadiopharmaceuticalStopTime
    00181079 DT RadiopharmaceuticalStopDateTime
    00080021 DA SeriesDate
    00080031 TM SeriesTime
    00080022 DA AcquisitionDate
    00080032 TM AcquisitionTime
    0008002a DT AcquisitionDateTime
    00080023 DA ContentDate
    00080033 TM ContentTime
    00189701 DT DecayCorrectionDateTime
    00189151 DT FrameReferenceDateTime
    00189074 DT FrameAcquisitionDateTime`,
  },
];
