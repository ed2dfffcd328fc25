import { Toast } from '@base-ui/react/toast';

/** Holds the messages until the code that shows them is loaded. */
export const toastManager = Toast.createToastManager();
