"""Stop words of English and Spanish, folded (lower case, without accents).

Function words only: nothing that could be what somebody looks for. Kept in the package rather than
taken from scikit-learn, which has none for Spanish and is imported only where topics are computed.
"""

from __future__ import annotations

_ENGLISH = """
a about above after again against all also am an and any are as at be because been before being
below between both but by can cannot could did do does doing down during each either else ever
every few for from further had has have having he her here hers herself him himself his how i if
in into is it its itself just let me might more most much must my myself neither nor of off on once
only onto or other ought our ours ourselves out over own per shall she should since so some such
than that the their theirs them themselves then there these they this those though through thus to
too under until up upon us very was we were what when where whether which while who whom whose why
will with within would you your yours yourself yourselves
"""

_SPANISH = """
a al algo alguien algun alguna algunas alguno algunos ante antes aquel aquella aquellas aquello
aquellos aqui asi aun aunque bajo bien cada casi como con contra cual cuales cualquier cuando cuanto
cuya cuyas cuyo cuyos de del desde donde dos durante e el ella ellas ello ellos en entonces entre
era eran eras eres es esa esas ese eso esos esta estaba estaban estado estamos estan estar estas
este esto estos estoy fue fueron ha habia habian haber hace hacen hacia han hasta hay he hemos la
las le les lo los mas me mediante mi mia mias mientras mio mios mis misma mismas mismo mismos mucha
muchas mucho muchos muy nada ni ningun ninguna ninguno nos nosotras nosotros nuestra nuestras
nuestro nuestros o os otra otras otro otros para pero poca pocas poco pocos por porque pues que
quien quienes se segun sea sean ser si sido siempre siendo sin sino sobre sois solo somos son soy
su sus suya suyas suyo suyos tal tambien tampoco tan tanto tenemos tener tengo ti tiene tienen
toda todas todavia todo todos tras tu tus tuya tuyo un una unas uno unos usted ustedes va vamos van
vosotras vosotros vuestra vuestro y ya yo
"""

# Missing on purpose: "no" and "not", which turn a statement around, and "te", which is also "té".
STOP_WORDS: frozenset[str] = frozenset(_ENGLISH.split()) | frozenset(_SPANISH.split())
