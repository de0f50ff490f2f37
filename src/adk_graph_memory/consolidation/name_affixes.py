"""List the words that accompany a name: titles, legal forms of companies, marks of a generation.

They are spelled as people write them; :mod:`name_matching` folds them like names. Words that are also common names or
initials are left out: French "M.", Spanish "don", Japanese 君.
"""

from __future__ import annotations

from typing import Literal

Sex = Literal["m", "f", ""]

TITLES: dict[Sex, str] = {
    "m": "mr mister herr monsieur señor sr signor senhor г-н господин κύριος κος السيد מר श्रीमान sir",
    "f": "mrs ms miss frau fräulein madame mme mademoiselle mlle señora sra señorita srta signora senhora pani "
    "г-жа госпожа κυρία κα السيدة גברת גב' श्रीमती",
    "": "dr doctor doktor dra docteur prof professor professeur profesor profesora ing д-р доктор проф профессор δρ "
    "δόκτωρ καθηγητής د. دكتور الدكتور الدكتورة الأستاذ الأستاذة ד\"ר פרופ' श्री डॉ डॉक्टर",
}
"""Words before a name, mostly a family name."""

HONORIFIC_SUFFIXES: dict[Sex, str] = {
    "m": "bey",
    "f": "hanım 小姐 女士 太太 夫人",
    "": "さん さま 様 くん ちゃん 先生 老师 老師 씨 님 선생님 जी",
}
"""Words after a given or family name; attached to it in scripts without spaces."""

ROMANISED_HONORIFICS = "san sama sensei kun chan ssi nim ji"
"""Honorifics after a hyphen only; as separate words some are names (Jackie Chan, Aung San)."""

HONORIFIC_PREFIXES: dict[Sex, str] = {"m": "นาย", "f": "นางสาว นาง", "": "คุณ ดร"}
"""Honorifics attached before a given name."""

GENERATIONS = "jr junior sr senior ii iii iv filho neto fils père младший старший"
"""Words that tell father and son apart; they are part of the name."""

PARTICLES = (
    "van von der den ter ten op zu af av de del della degli di da do dos das du la le los las el al bin ibn bint y e i"
)
"""Lower-case words in people's names; any other lower-case word is a description: Jonas' wife."""

LEGAL_SUFFIXES = (
    "inc incorporated corp corporation co company ltd limited llc llp lp plc pty gmbh mbh ag kg ohg gbr kgaa se ug "
    "gmbh&co.kg e.v. s.a. s.a.r.l. sas s.a.s. s.l. s.p.a. s.r.l. snc n.v. b.v. ab oy oyj a/s aps asa as s.r.o. "
    "a.s. sp.z.o.o. kft zrt nyrt d.o.o. a.ş. ltda s.a.b. sdn.bhd. bhd pvt pvtltd coltd ооо оао пао ао зао α.ε. ε.π.ε. "
    'בע"מ ش.م.ل ذ.م.م लिमिटेड प्रा.लि. 株式会社 有限会社 合同会社 '
    "有限公司 股份有限公司 有限责任公司 주식회사 유한회사 จำกัด"
)
LEGAL_PREFIXES = "ооо оао пао ао зао pt 株式会社 有限会社 合同会社 (株) 주식회사 (주) บริษัท شركة חברת"
LEGAL_ABBREVIATIONS = (
    "incorporated=inc corporation=corp company=co limited=ltd 株=株式会社 주=주식회사 股份有限公司=有限公司"
)
ARTICLES = "the"
"""English only: in La Paz, El Salvador or Die Zeit the article is part of the name."""
