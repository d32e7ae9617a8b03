/**
 * Words that attributes may contain, by the name of their list: terms defined in PS3.3 and PS3.16, and a few from common
 * scanners.
 */
export const terms = {
  modality: `AR | BDUS | BI | BMD | CR | CT | CTPROTOCOL | DG | DMS | DX | ECG | EPS | ES | GM | HC | HD | IO | IOL | IVOCT | IVUS |
    KER | LEN | LS | M3D | MG | MR | NM | OAM | OCT | OP | OPM | OPT | OPTBSV | OPTENF | OPV | OSS | OT | PA | PT | PX | RF | RG |
    RTDOSE | RTIMAGE | SC | SM | SMR | SRF | TG | US | VA | XA | XC`,
  imageType: `ORIGINAL | DERIVED | MIXED | PRIMARY | SECONDARY | AXIAL | LOCALIZER | OTHER | NONE | SINGLE PLANE | BIPLANE A |
    BIPLANE B | VOLUME | ANGIO | ANGIO_TIME | CARDIAC | CARDIAC_GATED | CARDRESP_GATED | CINE | DIFFUSION | DIXON | DYNAMIC | FLOW_ENCODED |
    FLUID_ATTENUATED | FLUOROSCOPY | FMRI | GATED | MAX_IP | METABOLITE_MAP | MIN_IP | MULTIECHO | M_MODE | PERFUSION |
    PROTON_DENSITY | REALTIME | REST | RESP_GATED | SPECTROSCOPY | STATIC | STIR | STRESS | T1 | T2 | T2_STAR | TAGGING | TEMPERATURE |
    TOF | VELOCITY | WHOLE_BODY | WHOLE BODY | ADDITION | SUBTRACTION | DIVISION | MASKED | MAXIMUM | MEAN | MINIMUM | MTT | MULTIPLICATION |
    NORMALIZED | RCBF | RCBV | RESAMPLED | STD_DEVIATION | T1_MAP | T2_MAP | T2_STAR_MAP | PD_MAP | TTP | TMAX | CBF | CBV | ADC | EADC |
    FA | TRACE | TRACEW | B0 | TENSOR | PHASE_MAP | PHASE | MAGNITUDE | REAL | IMAGINARY | M | P | R | I | M_FFE | M_SE | M_IR | M_B0 |
    M_B1 | P_FFE | R_FFE | I_FFE | R_IR | FFE | SE | IR | TSE | EPI | NORM | ND | DIS2D | DIS3D | DFC | MOSAIC | MFSPLIT | FILTERED |
    MPR | MIP | MINIP | PROJECTION IMAGE | REFORMATTED | AVERAGE | IN_PHASE | OUT_PHASE | OPP_PHASE | WATER | FAT | FAT_FRACTION | SUB | SWI |
    SW | MOCO | UNI | INV1 | INV2 | EMISSION | TRANSMISSION | TOMO | RECON TOMO | RECON GATED TOMO | GATED TOMO | RECON |
    HELICAL | SPI | CT_SOM5 | CT_SOM5 SPI | CT_SOM7 | CT_SOM7 SPI | CSA MPR | CSAPARALLEL | SINGLE A | SINGLE B | STD | MONOENERGETIC | VMI | LABEL | THUMBNAIL | OVERVIEW | RESAMPLE | LEFT | RIGHT |
    TOMOSYNTHESIS | GENERATED_2D | TOMO_PROJ | TOMO_2D | STEREO_SCOUT | POST_CONTRAST | REPROJECTION | IMAGE`,
  units: 'OD | HU | US | MGML | Z_EFF | ED | EDW | HU_MOD | PCT',
  petUnits: `CNTS | NONE | CM2 | CM2ML | PCNT | CPS | BQML | MGMINML | UMOLMINML | MLMING | MLG | 1CM | UMOLML | PROPCNTS | PROPCPS |
    MLMINML | MLML | GML | STDDEV | SUV`,
  corrections: `UNIF | COR | NCO | DECY | ATTN | SCAT | DTIM | NRGY | LIN | MOTN | CLN | NORM | DCAL | NORM | RADL | RAN | RANSM | DEAD |
    DECAY | 2SCAT | 3SCAT`,
  ucum: `1 | % | mm2/s | um2/s | ms | s | min | h | mm | cm | ml | [hnsf'U] | Bq/ml | g/ml{SUVbw} | g/ml{SUVlbm} | cm2/ml{SUVbsa} |
    {SUVbw}g/ml | ml/min/ml | ml/(100.g.min) | ml/(100.g) | rad | deg | ppm | mg/ml | 10*-6.mm2/s | 10*-3.mm2/s | 10*-6mm2/s | mGy | Gy |
    /s | /min | [arb'U] | {counts} | {ratio}`,
  meanings: `^18^Fluorine | F^18^ | ^11^Carbon | C^11^ | ^13^Nitrogen | ^15^Oxygen | ^68^Gallium | ^82^Rubidium | ^64^Copper | ^89^Zirconium |
    ^99m^Technetium | ^123^Iodine | ^124^Iodine | ^131^Iodine | ^111^Indium | ^177^Lutetium | Fluorodeoxyglucose F^18^ | FDG |
    Fluorodeoxyglucose | recumbent | erect | semi-erect | supine | prone | right lateral decubitus | left lateral decubitus |
    headfirst | head first | feet-first | feet first | Intravenous route | Oral route | cranio-caudal | medio-lateral oblique |
    Brain | Head | Neck | Chest | Abdomen | Pelvis | Heart | Breast | Whole body | Lung | Liver | Kidney | Spine | Knee | Hip |
    Shoulder | no units | Hounsfield unit | Hounsfield Unit | millimeter`,
  bodyParts: `ABDOMEN | ABDOMENPELVIS | ADRENAL | ANKLE | AORTA | ARM | AXILLA | BACK | BLADDER | BODY | BRAIN | BREAST | BRONCHUS | BUTTOCK |
    CALCANEUS | CALF | CAROTID | CEREBELLUM | CERVIX | CHEEK | CHEST | CHESTABDOMEN | CHESTABDPELVIS | CIRCLEOFWILLIS | CLAVICLE | COCCYX |
    COLON | CORNEA | CORONARYARTERY | CSPINE | CTSPINE | DUODENUM | EAR | ELBOW | ESOPHAGUS | EXTREMITY | EYE | EYELID | FACE | FEMUR | FINGER |
    FOOT | GALLBLADDER | HAND | HEAD | HEADNECK | HEART | HIP | HUMERUS | IAC | ILEUM | ILIUM | JAW | JEJUNUM | KIDNEY | KNEE | LARYNX | LEG |
    LIVER | LSPINE | LSSPINE | LUMBAR | LUNG | MANDIBLE | MAXILLA | MEDIASTINUM | MOUTH | NECK | NECKCHEST | NECKCHESTABDOMEN | NECKCHESTABDPELV |
    NOSE | ORBIT | OVARY | PANCREAS | PAROTID | PATELLA | PELVIS | PENIS | PHARYNX | PITUITARY | PROSTATE | RADIUS | RADIUSULNA | RECTUM | RIB |
    RIBS | SACRUM | SCALP | SCAPULA | SCLERA | SCROTUM | SELLA | SHOULDER | SINUS | SIJOINT | SKULL | SPINE | SPLEEN | SSPINE | STERNUM | STOMACH |
    SUBMANDIBULAR | TESTIS | THIGH | THUMB | THYMUS | THYROID | TIBIA | TIBIAFIBULA | TLSPINE | TMJ | TOE | TONGUE | TRACHEA | TSPINE | ULNA |
    URETER | URETHRA | UTERUS | VAGINA | VULVA | WHOLE BODY | WHOLEBODY | WRIST | ZYGOMA`,
  scanOptions: `PER | RG | CG | PPG | FC | PFF | PFP | SP | FS | CT | RESP | ECG | HELICAL MODE | AXIAL MODE | CINE MODE | SCOUT MODE | HELICAL_CT |
    NORMAL_CT | CINE_CT | ACC_GEMS | EDR_GEMS | FAST_GEMS | FILTERED_GEMS | MP_GEMS | NPW | PFF | PHASE | SAT_GEMS | SEQ_GEMS |
    TOF_GEMS | VB_GEMS | WE | FR_GEMS | GRAPH_GEMS | SAT1 | SAT2 | IR | SFS | OTHER`,
  metals: `TUNGSTEN | MOLYBDENUM | RHODIUM | SILVER | ALUMINUM | COPPER | NIOBIUM | EUROPIUM | LEAD | TANTALUM | TIN | CU_OR_AL | NONE | MIXED`,
  kernels: `STANDARD | SOFT | BONE | BONEPLUS | LUNG | DETAIL | EDGE | CHEST | ULTRA | SMOOTH | SHARP | BRAIN | HEAD | BODY | A | B | C | D | E |
    EA | EB | EC | F | L | UA | UB | UC | XCA | XCB | XCC | YA | YB | YC | YD | YE`,
  shapes: 'RECTANGLE | RECTANGULAR | ROUND | HEXAGONAL | CIRCULAR | POLYGONAL | BITMAP | OCTAGONAL',
  nuclei: '1H | H | H1 | 3HE | 7LI | 13C | 19F | 23NA | 31P | 129XE',
  tracers: `FDG | F-18 FDG | FDG -- fluorodeoxyglucose | Fluorodeoxyglucose | Fluorodeoxyglucose F^18^ | Solution | DOTATATE | DOTATOC | DOTANOC |
    PSMA | PSMA-11 | PSMA-1007 | FLT | FET | FDOPA | FMISO | Choline | Florbetapir | Florbetaben | Flutemetamol | Methionine |
    NaF | PiB | Ammonia | Water`,
  manufacturers: `SIEMENS | Siemens | Siemens Healthineers | Siemens Healthcare | SIEMENS NM | GE MEDICAL SYSTEMS | GE Medical Systems | G.E. Medical Systems | GE Healthcare | GE HEALTHCARE |
    GEMS | GE | Philips Medical Systems | Philips | PHILIPS | Philips Healthcare | Philips Medical Systems, Inc. | TOSHIBA |
    TOSHIBA_MEC | Toshiba | CANON_MEC | Canon Medical Systems | Canon Inc. | Hitachi Medical Corporation | HITACHI | Hitachi, Ltd. | UIH |
    HOLOGIC, Inc. | HOLOGIC | Hologic, Inc. | FUJIFILM Corporation | FUJI PHOTO FILM Co., ltd. | Agfa | Agfa-Gevaert | KODAK | Carestream Health |
    CARESTREAM HEALTH | Bruker BioSpin MRI GmbH | Bruker | ADAC | Picker International, Inc. | Marconi Medical Systems, Inc. | ELSCINT | CPS |
    CTI | Mediso | Neusoft | Shimadzu | SHIMADZU | Varian Medical Systems | Elekta | Imatron | Esaote | Hyperfine | Planmeca`,
} as const satisfies Readonly<Record<string, string>>;
