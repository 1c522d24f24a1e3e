// Runs an OpenID provider on a free port of the loopback address until its input ends:
// node provider.mjs. It prints its issuer, and then reads a line with the origin of the page that it
// signs people in to. Anybody signs in under any name; the part of the name before a dash is the
// person's group. The client job gets tokens of the group oncall for the audience that it names by a
// resource.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Provider } from 'oidc-provider';

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;
console.log(issuer);
const lines = createInterface({ input: process.stdin });
lines.on('close', () => process.exit());
const [page] = await once(lines, 'line');
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'page', client_secret: 'the secret of the page',
    redirect_uris: [`${page}/ui/sign-in/callback`],
    post_logout_redirect_uris: [`${page}/ui/sign-in`],
  }, {
    client_id: 'job', client_secret: 'the secret of the job',
    grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
  }],
  claims: { openid: ['sub'], profile: ['name'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'groups'],
  pkce: { required: () => true },
  cookies: { keys: ['of a test'] },
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_, resource) => ({
        audience: resource.replace('urn:', ''), scope: '', accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  extraTokenClaims: (_, token) => (token.kind === 'ClientCredentials' ? { groups: ['oncall'] } : undefined),
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `the ${id}`, groups: [id.split('-')[0]] }),
  }),
});
server.on('request', provider.callback());
console.log('ready');
