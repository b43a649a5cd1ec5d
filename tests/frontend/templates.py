"""Chat templates of our own, which together use what public templates use."""

CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' ~ messages[0].content | trim ~ '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set reasoning = message.reasoning_content | default('', true) %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if reasoning and loop.index0 + 2 > messages | length %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n' }}
        {%- endif %}
        {%- if message.content %}{{- message.content.split('</think>')[-1] }}{%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' }}{{- message.content }}
        {{- '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

PARTS = """\
{{- bos_token }}
{%- macro said(content) %}
    {%- if content is string %}{{ content }}
    {%- else %}
        {%- for part in content %}
            {%- if part.type == 'text' %}{{ part.text }}
            {%- elif 'image' in part or part.type == 'image' %}{{ '<image>' }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- for message in messages %}
    {{- '<|' + message['role'] + '|>' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {%- if message.tool_calls %}
                {%- for call in message.tool_calls %}
                    {{- ['<call>', call.function.name, '<args>'] | join }}
                    {%- for key, value in call.function.arguments.items() %}
                        {{- '<{}>{}'.format('key', key) }}
                        {{- '<value>' ~ (value | tojson | safe if value is not string else value) }}
                    {%- endfor %}
                    {{- '</call>' }}
                {%- endfor %}
            {%- endif %}
            {{- said(message.content) + eos_token }}
        {%- endgeneration %}
    {%- else %}
        {%- filter trim %}{{ said(message.content) }}{% endfilter %}
        {{- '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}
"""

NAMES = """\
{%- set ns = namespace(text='', first=true) %}
{%- for message in messages %}
    {%- if message.role == 'developer' %}{% set ns.text = ns.text + '[INST]' + message.content %}
        {%- continue %}
    {%- endif %}
    {%- if message.role not in ['user', 'assistant', 'system', 'tool'] %}
        {{- raise_exception('unknown role ' + message.role) }}
    {%- endif %}
    {%- if loop.last and message.role == 'tool' %}{% break %}{% endif %}
    {%- set open %}<{{ message.role | upper }}>{% endset %}
    {%- set ns.text = ns.text ~ open ~ '<s>[INST]'.replace('[INST]', '[OPEN]') %}
    {%- set ns.text = ns.text ~ (message.content or '') | replace('\\n', ' ') | indent(2) %}
    {%- for call in message.tool_calls or [] %}
        {%- set ns.text = ns.text + '[CALLS]' + call.function.arguments + '</CALLS>' %}
    {%- endfor %}
{%- endfor %}
{{- strftime_now('%Y') ~ dict(a=1) | tojson }}
{%- for line in ns.text.splitlines() %}{{ line }}{% endfor %}
{%- if add_generation_prompt %}{{ ('  <ASSISTANT>' * 1)[2:].rstrip() | safe }}{% endif %}
"""

ALL = {"chatml": CHATML, "parts": PARTS, "names": NAMES}
