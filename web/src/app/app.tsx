import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { createQueryClient } from '../client/query-client.ts';
import { Toasts } from '../ui/toast.tsx';
import { router } from './router.tsx';
import { SessionGate } from './session.tsx';

const queryClient = createQueryClient();

export function App() {
  return (
    // The content security policy allows no style elements.
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queryClient}>
        <SessionGate>
          <RouterProvider router={router} />
        </SessionGate>
        <Toasts />
      </QueryClientProvider>
    </CSPProvider>
  );
}
