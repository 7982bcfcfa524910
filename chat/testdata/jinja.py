"""Renders small templates with Python's jinja2, set up as transformers does, and writes jinja.json."""
import json
import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
import jinja2.ext
def raise_exception(m): raise jinja2.exceptions.TemplateError(m)
def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
env=ImmutableSandboxedEnvironment(trim_blocks=True,lstrip_blocks=True,extensions=[jinja2.ext.loopcontrols])
env.filters['tojson']=tojson
env.globals['raise_exception']=raise_exception
vars={"a":"<b>&é'\"\u2028\x7f\t","n":1.0,"i":7,"big":1e20,"small":1e-7,"none":None,"t":True,"l":[3,1,2],"s":" x \n","d":{"b":1,"A":{"z":[1,2.5,None,True,"q'"]},"c":[]},"e":{},"u":"ÄÖü 🙂","msgs":[{"role":"user","content":"hi","n":1},{"role":"tool","content":"x"}]}
T=['{{ a }}|{{ n }}|{{ big }}|{{ small }}|{{ none }}|{{ t }}|{{ l }}|{{ d }}|{{ undefined_x }}',
'{{ a|tojson }}{{ d|tojson }}{{ d|tojson(indent=2) }}{{ e|tojson(indent=2) }}{{ n|tojson }}{{ l|tojson(separators=(",",":")) }}{{ u|tojson(ensure_ascii=true) }}{{ d|tojson(sort_keys=true) }}',
'x {{ i }}{%- if t %} y {%- endif %} z\n  {% if t %}\n  in\n  {% endif %}\nend\n',
'  {%- for x in l %}\n {{ x }},\n{% endfor %}\n\ntail \n',
'{# c #}\n a {#- c -#} b\n {# d #}\n e',
'{% raw %} {{ x }} {% y %} {% endraw %} z {%- raw -%}  q  {%- endraw -%}  r',
'{{ l|sort }}{{ l|sort(reverse=true) }}{{ d|dictsort|map("last")|list }}{{ d|items|map("first")|list }}{{ d.keys()|list }}{{ l|map("string")|join("-") }}{{ msgs|map(attribute="role")|join(",") }}',
'{{ msgs|selectattr("role","equalto","user")|list }}{{ msgs|rejectattr("n")|list }}{{ msgs|selectattr("n","defined")|list }}{{ l|select("odd")|list }}{{ l|reject("gt",1)|list }}',
'{{ i is divisibleby 7 and t }}{{ i is divisibleby(2) }}{{ "a" is in "abc" }}{{ i is not none }}{{ x is defined }}{{ not x is defined }}{{ 1 + i is odd }}{{ s is string and s is sequence }}{{ d is mapping }}{{ none is none }}',
"{{ 'a\\nb\\t\\\\ \\'q\\' \\u00e9\\x41' }}{{ \"it's\" }}{{ 'a' 'b' }}",
'{% macro m(x, y=2) %}[{{ x }}:{{ y }}]{% endmacro %}{{ m(1) }}{{ m(1, y=3) }}{% set q = m(5) %}{{ q|upper }}',
'{% set ns = namespace(x=1) %}{% for k in l %}{% if k == 1 %}{% continue %}{% endif %}{% set ns.x = ns.x + k %}{{ loop.index }}{{ loop.last }}{% endfor %}{{ ns.x }}',
'{{ s|trim }}|{{ s.strip() }}|{{ none|default("d") }}|{{ z|default("d") }}|{{ ""|default("d", true) }}|{{ l|first }}{{ l|last }}{{ "abc"|last }}{{ "abc"[1:] }}{{ l[::-1] }}{{ "abc"[::-1] }}{{ l[-1] }}',
'{{ "a" if i == 7 else "b" }}{{ "c" if not t }}{{ i ~ "x" }}{{ 7 // 2 }}{{ 7 / 2 }}{{ 7 % 4 }}{{ -i }}',
'{% for m in msgs if m.role == "tool" %}{{ m.content }}{% else %}none{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}',
'{{ {"a": {"b": 1}} }}{{ {"a": [1,2]}["a"] }}{{ "%s" }}{{ a|length }}{{ d|length }}',
'{{ u|upper }}{{ u|lower }}{{ "hello world"|title }}{{ "hello"|capitalize }}{{ "a,b"|replace(",", ";") }}{{ "a b".split() }}{{ "a-b-c".split("-") }}{{ "x".startswith("x") }}{{ "  y".lstrip() }}|',
'{% set x %}\n  body {{ i }}\n{% endset %}[{{ x }}]{% filter upper %}abc{{ i }}{% endfilter %}',
'{{ "1" + "2" }}{{ [1] + [2] }}{{ i|string + "x" }}{{ "5"|int + 1 }}{{ "2.5"|float }}{{ 3.7|int }}{{ 3.14159|round(2) }}{{ (-3)|abs }}',
'{{ msgs|tojson }}{{ "x"|tojson|length }}{{ range(3)|list }}{{ range(1,6,2)|list }}{{ range(5,0,-2)|list }}{{ l|sum }}{{ l|max }}{{ l|min }}{{ l|unique|list }}',
'a\r\nb{% if t %}\r\nc{% endif %}\r\nd\r\n',
'{{- "x" -}}  y  {{ "z" }}\n{%- if t -%}\n  w\n{%- endif +%}\n v {%+ if t %}k{% endif %}',
'{% for x in [1,2] %}{% for y in [3,4] %}{{ loop.index0 }}{{ x*y }} {% endfor %}{% endfor %}{{ loop is defined }}',
'{{ "<" ~ a|e ~ ">" }}{{ "a\nb"|indent(2) }}{{ "a\nb"|indent(2, true) }}{{ "word count x"|wordcount }}',
'{{ d.get("b") }}{{ d.get("q") }}{{ d.get("q", 4) }}{{ "b" in d }}{{ "q" not in d }}{{ d["A"]["z"][1] }}{{ d.A.z|length }}',
'{{ l|join(", ") }}{{ d|list }}{{ "abc"|list }}{{ l|reverse|list }}{{ "abc"|reverse }}',
'{% for x in [1,2] %}{% if x == 1 %}{% set v = "set" %}{% endif %}[{{ v }}]{% endfor %}',
'{% set v = 0 %}{% for x in [1,2,3] %}{{ v }}{% set v = v + x %}{{ v }}{% for y in [1,2] %}{% set w = x %}{% if y == 1 %}{% set v = 9 %}{% endif %}{{ v }}{{ w }}{% endfor %}{% endfor %}{{ v }}{{ w }}',
'{% for x in [1,2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{% for k, v in d|items %}{% set k = k ~ "!" %}{{ k }}{% endfor %}',
'{% macro f(n) %}{% for i in range(n) %}{% set t = t is defined %}{{ t }}{{ f(n - 1) }}{% endfor %}{% endmacro %}{{ f(3) }}',
'{{ msgs[0]["role"] }}{{ msgs[0].role }}{{ msgs[-1].content[0] }}{{ msgs[9] is defined }}{{ msgs[0].nope is defined }}{{ d["A"]["z"][0] }}{{ d.A.z[1:3] }}{{ d["nope"] }}{{ none.x is defined }}{{ "abc"[9] is defined }}{{ [1,[2,3]][1][0] }}{{ {"k": [5]}["k"][0] }}{{ (l or 1)[0] }}',
'{{ nope.x }}','{{ nope["x"] }}','{{ msgs[5]["role"] }}','{{ msgs[0].nope.deeper }}','{% if nope.x is defined %}{% endif %}','{{ msgs[0]["nope"]["x"] }}',
'{% for m in msgs %}{{ m["role"] + ":" + m.content[:1] }}{% if m.n is defined and m.n > 0 %}!{% endif %}{% endfor %}{{ msgs[1:][0].role }}{{ msgs | length - 1 }}{{ msgs[msgs|length - 1].role }}',
'{% set ns = namespace(a=[], b={"x": 1}) %}{% set ns.c = ns.b.x + 1 %}{{ ns.c }}{{ ns.b["x"] }}{{ ns.nope is defined }}{% for x in l %}{% set ns.a = ns.a + [x] %}{% endfor %}{{ ns.a }}',
]
out=[]
for t in T:
    try: r=env.from_string(t).render(**vars); out.append({"template": t, "want": r})
    except Exception as e: out.append({"template": t, "error": str(e)})
with open('jinja.json', 'w') as f:
    json.dump({'jinja2': jinja2.__version__, 'vars': vars, 'cases': out}, f, indent=1)
    f.write('\n')
