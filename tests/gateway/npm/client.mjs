// A client on the official TypeScript SDK, of either line: it does what a client does, and tells what it got as JSON.
//
//   node client.mjs '{"npm": FOLDER, "sdk": 1 | 2, "mode": "legacy" | "auto", "command": [...] | "url": URL, "token": T,
//                     "calls": [[METHOD, PARAMS], ...]}'
//
// Methods that the client has a word of its own for go by that, so that it checks what it gets.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const asked = JSON.parse(process.argv[2]);
const load = createRequire(join(asked.npm, 'client.js'));

function sdk() {
    if (asked.sdk === 2) {
        const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
        const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');
        return { Client, StreamableHTTPClientTransport, StdioClientTransport, kind: name => name };
    }
    const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const types = load('@modelcontextprotocol/sdk/types.js');
    const schemas = {
        'sampling/createMessage': types.CreateMessageRequestSchema,
        'elicitation/create': types.ElicitRequestSchema,
        'roots/list': types.ListRootsRequestSchema,
        'notifications/message': types.LoggingMessageNotificationSchema,
    };
    return { Client, StreamableHTTPClientTransport, StdioClientTransport, kind: name => schemas[name] };
}

const { Client, StreamableHTTPClientTransport, StdioClientTransport, kind } = sdk();
const capabilities = { sampling: {}, elicitation: {}, roots: {} };
const options = asked.sdk === 2 ? { versionNegotiation: { mode: asked.mode } } : {};
const client = new Client({ name: 'typescript', version: '1' }, { capabilities, ...options });
const told = { progress: [], logged: [] };
client.setRequestHandler(kind('sampling/createMessage'), async request => ({
    role: 'assistant',
    model: 'made up',
    content: { type: 'text', text: `heard ${request.params.messages[0].content.text}` }
}));
client.setRequestHandler(kind('elicitation/create'), async () => ({ action: 'accept', content: { name: 'Ada' } }));
client.setRequestHandler(kind('roots/list'), async () => ({ roots: [{ uri: 'file:///srv/bags', name: 'bags' }] }));
client.setNotificationHandler(kind('notifications/message'), message => {
    told.logged.push(message.params.data);
});

const transport = asked.url
    ? new StreamableHTTPClientTransport(new URL(asked.url), {
          requestInit: asked.token ? { headers: { Authorization: `Bearer ${asked.token}` } } : {}
      })
    : new StdioClientTransport({ command: asked.command[0], args: asked.command.slice(1), stderr: 'ignore' });

const ways = {
    'tools/list': params => client.listTools(params),
    'tools/call': params => {
        const listen = { onprogress: step => told.progress.push([step.progress, step.total]) };
        return asked.sdk === 2 ? client.callTool(params, listen) : client.callTool(params, undefined, listen);
    },
    'prompts/list': params => client.listPrompts(params),
    'prompts/get': params => client.getPrompt(params),
    'resources/list': params => client.listResources(params),
    'resources/templates/list': params => client.listResourceTemplates(params),
    'resources/read': params => client.readResource(params),
    'completion/complete': params => client.complete(params)
};

await client.connect(transport);
const answers = [];
for (const [method, params] of asked.calls) {
    try {
        answers.push({ result: await ways[method](params) });
    } catch (problem) {
        answers.push({ error: { code: problem.code, message: problem.message } });
    }
}
const about = { server: client.getServerVersion(), capabilities: client.getServerCapabilities() };
// All of it has to be out before the process ends.
process.stdout.write(JSON.stringify({ ...about, ...told, answers }), async () => {
    await client.close();
    process.exit(0);
});
